// open_rows(). Each data file has its own cache, so that changing weights or the seed, or adding a
// file, does not tokenise the others again. A dataset is a view of these caches.
#include "data/dataset/content_key.h"
#include "data/dataset/example_cache.h"
#include "data/dataset/file_report.h"
#include "data/dataset/files_dataset.h"
#include "data/dataset/mixture.h"
#include "data/dataset/row_rules.h"
#include "data/dataset/tokenize_file.h"
#include "io/torn_files.h"

#include <reprise/data/dataset.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise {

std::filesystem::path default_cache_folder() {
  const char* const caches = std::getenv("XDG_CACHE_HOME");
  if (caches != nullptr && *caches != '\0') {
    return std::filesystem::path(caches) / "reprise";
  }
  const char* const home = std::getenv("HOME");
  TORCH_CHECK(
      home != nullptr && *home != '\0',
      "[data] no folder for caches: set one, or set the environment variable XDG_CACHE_HOME");
  return std::filesystem::path(home) / ".cache" / "reprise";
}

}  // namespace reprise

namespace reprise::data {
namespace {

std::filesystem::path cache_folder(const DatasetOptions& options) {
  return options.cache.empty() ? default_cache_folder() : options.cache;
}

void check_options(const DatasetOptions& options) {
  TORCH_CHECK(!options.files.empty(), "[data] expected at least one data file, found none");
  TORCH_CHECK(options.max_samples == -1 || options.max_samples > 0,
              "[data] expected max_samples above 0, or -1 for all, found ",
              options.max_samples);
  check_weights(options.files);
}

class Opener {
 public:
  Opener(const RowRules& rules, const DatasetOptions& options)
      : rules_(rules), options_(options), root_(cache_folder(options)) {
    for (const DataFile& file : options.files) {
      keys_.push_back(content_key(file.path, root_));
      bytes_ += keys_.back().at("bytes").get<double>();
    }
  }

  OpenedDataset open() {
    io::remove_abandoned_files(root_);
    report_.from_cache = true;
    for (size_t i = 0; i < options_.files.size() && rows_wanted() != 0; ++i) {
      open_file(options_.files[i].path, keys_[i]);
    }
    std::vector<int64_t> order;
    if (is_mixture(options_.files)) {
      order = draw_order();
    } else {
      const bool are_left = std::any_of(
          files_.begin(), files_.end(), [](const auto& file) { return file->size() > 0; });
      check_examples_left(are_left, names_.size() == 1 ? names_.front() : "all files");
    }
    return {view_files(std::move(files_), std::move(names_), std::move(order)), std::move(report_)};
  }

 private:
  /// How many rows to read from the next file; -1: all.
  int64_t rows_wanted() const {
    const bool one_after_the_other = options_.max_samples > 0 && !is_mixture(options_.files);
    return one_after_the_other ? options_.max_samples - report_.rows : options_.max_samples;
  }

  void open_file(const std::filesystem::path& path, const Json& content) {
    const Json key = {{"version", kCacheVersion},
                      {"content", content},
                      {"rows", rules_.key},
                      {"tokenizer", options_.tokenizer_key},
                      {"skip_bad_rows", options_.skip_bad_rows},
                      {"max_rows", rows_wanted()}};
    // Invalid UTF-8 in options is replaced; a key need not be reversible.
    const CacheRules cached{
        .key = hash_text(key.dump(-1, ' ', false, Json::error_handler_t::replace)),
        .max_length = rules_.max_length};
    const auto folder = root_ / cached.key;
    auto cache = ExampleCache::open(folder, cached);
    auto report = cache ? FileReport::from_json(cache->report()) : std::nullopt;
    if (!report) {
      report_.from_cache = false;
      build(path, folder, content.at("bytes").get<double>());
      cache = ExampleCache::open(folder, cached);
      report = cache ? FileReport::from_json(cache->report()) : std::nullopt;
      TORCH_CHECK(
          report,
          "[data] ",
          folder.string(),
          ": the cache cannot be used: it was changed while it was being built, or its file system "
          "does not keep owners and permissions; choose another folder for caches");
    }
    bytes_done_ += content.at("bytes").get<double>();
    check_format(*report, path.string());
    add_report(*report, path.string(), report_);
    files_.push_back(std::move(cache));
    names_.push_back(path.string());
  }

  void build(const std::filesystem::path& path, const std::filesystem::path& folder, double bytes) {
    TokenizeFileOptions options{.skip_bad_rows = options_.skip_bad_rows,
                                .max_rows = rows_wanted(),
                                .progress = {},
                                .key = folder.filename().string()};
    if (options_.progress) {
      options.progress = [&](int64_t rows, double fraction) {
        options_.progress(report_.rows + rows, (bytes_done_ + fraction * bytes) / bytes_);
      };
    }
    tokenize_file(path, rules_, options, folder);
  }

  void check_format(const FileReport& file, const std::string& name) {
    if (file.format.empty()) {
      return;
    }
    const RowFormat found{name + ":" + std::to_string(file.format_line), file.format};
    check_same_format(first_format_.value_or(found), found);
    first_format_ = first_format_.value_or(found);
  }

  std::vector<int64_t> draw_order() const {
    std::vector<int64_t> sizes;
    std::vector<double> weights;
    for (size_t i = 0; i < files_.size(); ++i) {
      sizes.push_back(files_[i]->size());
      weights.push_back(options_.files[i].weight);
      check_examples_left(sizes.back() > 0, names_[i]);
    }
    auto order = mixture_order(sizes, weights, options_.seed);
    if (options_.max_samples > 0) {
      order.resize(std::min(order.size(), static_cast<size_t>(options_.max_samples)));
    }
    return order;
  }

  void check_examples_left(bool are_left, const std::string& where) const {
    const int64_t length = report_.lengths.length_for(1);
    TORCH_CHECK(are_left,
                "[data] ",
                where,
                ": no example is left; ",
                summarize(report_),
                length > 0 ? "; the longest has " + std::to_string(length) + " tokens" : "");
  }

  const RowRules& rules_;
  const DatasetOptions& options_;
  std::filesystem::path root_;
  std::vector<Json> keys_;  // content_key() of each file
  double bytes_ = 0;
  double bytes_done_ = 0;
  std::optional<RowFormat> first_format_;
  DatasetReport report_;
  std::vector<std::shared_ptr<const ExampleCache>> files_;
  std::vector<std::string> names_;
};

}  // namespace

OpenedDataset open_rows(const RowRules& rules, const DatasetOptions& options) {
  check_options(options);
  return Opener(rules, options).open();
}

}  // namespace reprise::data
