// open_prompts(): reads every file once, in batches that several threads tokenise, and keeps of it
// the rows that have a prompt. Results are used in the order of the file, so that neither prompts
// nor errors depend on the threads.
#include <reprise/data/prompts.h>

#include "data/file_report.h"
#include "data/mixture.h"
#include "data/prompts_rows.h"
#include "data/prompts_set.h"
#include "data/prompts_spill.h"

#include <reprise/data/row_reader.h>

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace reprise {
namespace {

constexpr size_t kBatchRows = 1000;
constexpr size_t kBatchBytes = size_t{16} << 20;
constexpr const char* kTooLong = "longer than max_prompt_length";

/// What a thread found out about a row.
struct Outcome {
  std::string format;
  std::string error;
  bool had_answer = false;
  bool is_too_long = false;
};

void check_files(const std::vector<DataFile>& files) {
  TORCH_CHECK(!files.empty(), "[data] expected at least one file of prompts, found none");
  const bool has_weights = files.front().weight != 0;
  for (const DataFile& file : files) {
    TORCH_CHECK(std::isfinite(file.weight) && file.weight >= 0 && (file.weight != 0) == has_weights,
                "[data] ",
                file.path.string(),
                ": expected weights above 0 for all files or for none, found ",
                file.weight);
  }
}

class PromptOpener {
 public:
  PromptOpener(const std::vector<DataFile>& files, detail::PromptEncoder encoder)
      : files_(files), encoder_(std::move(encoder)) {}

  std::shared_ptr<const PromptSet> open() {
    for (size_t file = 0; file < files_.size() && rows_wanted() != 0; ++file) {
      sizes_.push_back(read_file_rows(file));
      names_.push_back(files_[file].path.string());
    }
    if (is_mixture()) {
      mix();
    }
    check_prompts_left(!rows_.empty(), names_.size() == 1 ? names_.front() : "all files");
    spill_.flush();
    return detail::view_prompts({std::move(encoder_),
                                 std::move(spill_),
                                 std::move(rows_),
                                 std::move(names_),
                                 std::move(report_)});
  }

 private:
  bool is_mixture() const { return files_.size() > 1 && files_.front().weight != 0; }

  /// How many rows to take of the next file; -1: all.
  int64_t rows_wanted() const {
    const int64_t most = encoder_.options().max_samples;
    return most > 0 && !is_mixture() ? most - report_.rows : most;
  }

  /// Returns how many prompts the file gave.
  int64_t read_file_rows(size_t file) {
    RowReader reader(files_[file].path);
    const size_t prompts_before = rows_.size();
    const int64_t wanted = rows_wanted();
    int64_t count = 0;
    while (true) {
      const auto rows = read_batch(reader, wanted < 0 ? wanted : wanted - count);
      if (rows.empty()) {
        break;
      }
      count += static_cast<int64_t>(rows.size());
      const auto outcomes = try_all(rows);
      for (size_t i = 0; i < rows.size(); ++i) {
        take(file, reader.place(rows[i].line), rows[i], outcomes[i]);
      }
    }
    TORCH_CHECK(count > 0, "[data] ", reader.place(1), ": the file has no rows");
    return static_cast<int64_t>(rows_.size() - prompts_before);
  }

  static std::vector<RowText> read_batch(RowReader& reader, int64_t most) {
    std::vector<RowText> rows;
    size_t bytes = 0;
    while (rows.size() < kBatchRows && bytes < kBatchBytes &&
           (most < 0 || static_cast<int64_t>(rows.size()) < most)) {
      auto row = reader.next_text();
      if (!row) {
        break;
      }
      bytes += row->text.size();
      rows.push_back(std::move(*row));
    }
    return rows;
  }

  std::vector<Outcome> try_all(const std::vector<RowText>& rows) const {
    std::vector<Outcome> outcomes(rows.size());
    at::parallel_for(0, static_cast<int64_t>(rows.size()), 1, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        outcomes[i] = try_row(rows[i]);
      }
    });
    return outcomes;
  }

  Outcome try_row(const RowText& text) const {
    Outcome outcome;
    try {
      const detail::PromptRow row = encoder_.read(text.parse());
      outcome.format = row.convention;
      outcome.had_answer = row.had_answer;
      outcome.is_too_long = encoder_.encode(row).is_too_long;
    } catch (const c10::Error& error) {
      outcome.error = error.what_without_backtrace();
    } catch (const std::exception& error) {
      outcome.error = error.what();
    }
    return outcome;
  }

  void take(size_t file, const std::string& place, const RowText& row, const Outcome& outcome) {
    ++report_.rows;
    check_format(place, outcome.format);
    if (!outcome.error.empty()) {
      take_bad_row(place + ": " + outcome.error);
      return;
    }
    if (outcome.is_too_long && encoder_.options().long_prompts == LongPrompts::Drop) {
      ++report_.dropped[kTooLong];
      return;
    }
    report_.answers_cut_off += outcome.had_answer ? 1 : 0;
    report_.prompts_shortened += outcome.is_too_long ? 1 : 0;
    rows_.push_back({.offset = spill_.append(row.text),
                     .line = row.line,
                     .bytes = static_cast<uint32_t>(row.text.size()),
                     .file = static_cast<uint32_t>(file)});
  }

  void take_bad_row(std::string row) {
    TORCH_CHECK(encoder_.options().skip_bad_rows, "[data] ", row);
    ++report_.bad_row_count;
    if (report_.bad_rows.size() < detail::kBadRowsKept) {
      report_.bad_rows.push_back(std::move(row));
    }
  }

  /// Not a bad row that could be skipped: half of the data may be of the other convention.
  void check_format(const std::string& place, const std::string& format) {
    if (format.empty()) {
      return;
    }
    const detail::RowFormat found{place, format};
    detail::check_same_format(first_format_.value_or(found), found);
    if (!first_format_) {
      first_format_ = found;
      report_.format = format;
    }
  }

  void mix() {
    std::vector<double> weights;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      check_prompts_left(sizes_[i] > 0, names_[i]);
      weights.push_back(files_[i].weight);
    }
    auto order = detail::mixture_order(sizes_, weights, encoder_.options().seed);
    if (const int64_t most = encoder_.options().max_samples; most > 0) {
      order.resize(std::min(order.size(), static_cast<size_t>(most)));
    }
    std::vector<detail::SpilledRow> mixed;
    for (const int64_t index : order) {
      mixed.push_back(rows_[static_cast<size_t>(index)]);
    }
    rows_ = std::move(mixed);
  }

  void check_prompts_left(bool are_left, const std::string& where) const {
    TORCH_CHECK(
        are_left, "[data] ", where, ": no prompt is left; ", detail::what_became_of(report_));
  }

  const std::vector<DataFile>& files_;
  detail::PromptEncoder encoder_;
  detail::SpillFile spill_;
  std::optional<detail::RowFormat> first_format_;
  PromptReport report_;
  std::vector<detail::SpilledRow> rows_;  // of all files, one after the other
  std::vector<int64_t> sizes_;            // prompts of each file
  std::vector<std::string> names_;
};

}  // namespace

std::shared_ptr<const PromptSet> open_prompts(const std::vector<DataFile>& files,
                                              std::shared_ptr<const Tokenizer> tokenizer,
                                              const PromptOptions& options) {
  check_files(files);
  TORCH_CHECK(options.max_samples == -1 || options.max_samples > 0,
              "[data] expected max_samples above 0, or -1 for all, found ",
              options.max_samples);
  return PromptOpener(files, detail::PromptEncoder(std::move(tokenizer), options)).open();
}

}  // namespace reprise
