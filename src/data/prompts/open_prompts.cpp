// open_prompts(): reads every file once, tokenises each row to find errors early, and writes the
// rows that give a prompt to the spill file.
#include <reprise/data/prompts.h>

#include "data/dataset/file_report.h"
#include "data/dataset/mixture.h"
#include "data/prompts/prompt_encoder.h"
#include "data/prompts/prompt_set.h"
#include "data/prompts/spill_file.h"
#include "data/rows/row_batches.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace reprise::data {
namespace {

constexpr const char* kPromptOverLimit = "longer than max_prompt_length";

/// The result of trying one row.
struct PromptOutcome {
  std::string format;
  std::string error;
  bool had_answer = false;
  bool is_too_long = false;
  ExampleLength length;
};

class PromptOpener {
 public:
  PromptOpener(const std::vector<DataFile>& files, PromptEncoder encoder)
      : files_(files), encoder_(std::move(encoder)) {}

  std::shared_ptr<const PromptSet> open() {
    for (size_t file = 0; file < files_.size() && rows_wanted() != 0; ++file) {
      sizes_.push_back(read_file_rows(file));
      names_.push_back(files_[file].path.string());
    }
    if (is_mixture(files_)) {
      mix();
    }
    check_prompts_left(!rows_.empty(), names_.size() == 1 ? names_.front() : "all files");
    spill_.flush();
    return view_prompts({std::move(encoder_),
                         std::move(spill_),
                         std::move(rows_),
                         std::move(names_),
                         std::move(report_)});
  }

 private:
  /// How many rows to read from the next file; -1: all.
  int64_t rows_wanted() const {
    const int64_t max_samples = encoder_.options().max_samples;
    return max_samples > 0 && !is_mixture(files_) ? max_samples - report_.rows : max_samples;
  }

  /// Returns the number of prompts in the file.
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
      const auto outcomes = try_rows(rows);
      for (size_t i = 0; i < rows.size(); ++i) {
        take(file, reader.location(rows[i].line), rows[i], outcomes[i]);
      }
    }
    TORCH_CHECK(count > 0, "[data] ", reader.location(1), ": the file has no rows");
    return static_cast<int64_t>(rows_.size() - prompts_before);
  }

  std::vector<PromptOutcome> try_rows(const std::vector<RowText>& rows) const {
    return process_rows<PromptOutcome>(rows, [&](const RowText& text, PromptOutcome& outcome) {
      const PromptRow row = encoder_.read(text.parse());
      outcome.format = row.convention;
      outcome.had_answer = row.had_answer;
      const auto encoded = encoder_.encode(row);
      outcome.is_too_long = encoded.is_too_long;
      outcome.length = {.longest = encoded.length, .tokens = encoded.length};
      if (encoded.is_too_long && encoder_.options().long_prompts == LongPrompts::KeepEnd) {
        outcome.length.lost = encoded.length - static_cast<int64_t>(encoded.ids.size());
      }
    });
  }

  void take(size_t file,
            const std::string& location,
            const RowText& row,
            const PromptOutcome& outcome) {
    ++report_.rows;
    check_format(location, outcome.format);
    if (!outcome.error.empty()) {
      take_bad_row(location + ": " + outcome.error);
      return;
    }
    report_.lengths.add(outcome.length);
    if (outcome.is_too_long && encoder_.options().long_prompts == LongPrompts::Drop) {
      ++report_.dropped[kPromptOverLimit];
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
    if (report_.bad_rows.size() < kBadRowsKept) {
      report_.bad_rows.push_back(std::move(row));
    }
  }

  /// skip_bad_rows does not apply here: half of the data may follow the other convention.
  void check_format(const std::string& location, const std::string& format) {
    if (format.empty()) {
      return;
    }
    const RowFormat found{location, format};
    check_same_format(first_format_.value_or(found), found);
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
    auto order = mixture_order(sizes_, weights, encoder_.options().seed);
    if (const int64_t max_samples = encoder_.options().max_samples; max_samples > 0) {
      order.resize(std::min(order.size(), static_cast<size_t>(max_samples)));
    }
    std::vector<SpilledRow> mixed;
    for (const int64_t index : order) {
      mixed.push_back(rows_[static_cast<size_t>(index)]);
    }
    rows_ = std::move(mixed);
  }

  void check_prompts_left(bool are_left, const std::string& where) const {
    TORCH_CHECK(are_left, "[data] ", where, ": no prompt is left; ", summarize(report_));
  }

  const std::vector<DataFile>& files_;
  PromptEncoder encoder_;
  SpillFile spill_;
  std::optional<RowFormat> first_format_;
  PromptReport report_;
  std::vector<SpilledRow> rows_;  // of all files, one after the other
  std::vector<int64_t> sizes_;    // prompts of each file
  std::vector<std::string> names_;
};

}  // namespace
}  // namespace reprise::data

namespace reprise {

std::shared_ptr<const PromptSet> open_prompts(const std::vector<DataFile>& files,
                                              std::shared_ptr<const Tokenizer> tokenizer,
                                              const PromptOptions& options) {
  TORCH_CHECK(!files.empty(), "[data] expected at least one file of prompts, found none");
  data::check_weights(files);
  TORCH_CHECK(options.max_samples == -1 || options.max_samples > 0,
              "[data] expected max_samples above 0, or -1 for all, found ",
              options.max_samples);
  return data::PromptOpener(files, data::PromptEncoder(std::move(tokenizer), options)).open();
}

}  // namespace reprise
