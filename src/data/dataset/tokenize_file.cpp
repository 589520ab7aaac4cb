// Reads a file in batches of rows, tokenises them and writes the examples to the cache in the order
// of the file.
#include "data/dataset/tokenize_file.h"

#include "data/dataset/example_cache.h"
#include "data/dataset/file_report.h"
#include "data/rows/row_batches.h"

#include <c10/util/Exception.h>

#include <string>
#include <utility>
#include <vector>

namespace reprise::data {
namespace {

/// Note [Order of split pairs]
/// kto makes two examples of a pair, a desirable and an undesirable one. TRL splits pairs with
/// datasets.map, which processes 1000 rows at a time: it emits the desirable examples of all 1000
/// rows first, then the undesirable ones.
constexpr int64_t kRowsSplitTogether = 1000;

/// The result of one row, or its error.
struct TokenizeOutcome {
  std::string format;
  TokenizedRow row;
  std::string error;
};

class FileTokenizer {
 public:
  FileTokenizer(const std::filesystem::path& file,
                const RowRules& rules,
                const TokenizeFileOptions& options,
                const std::filesystem::path& folder)
      : reader_(file),
        rules_(rules),
        options_(options),
        writer_(folder, {.key = options.key, .max_length = rules.max_length}) {}

  void run() {
    for (auto rows = next_batch(); !rows.empty(); rows = next_batch()) {
      auto outcomes = tokenize(rows);
      for (size_t i = 0; i < rows.size(); ++i) {
        take(rows[i].line, std::move(outcomes[i]));
      }
      if (options_.progress) {
        options_.progress(report_.rows, reader_.fraction());
      }
    }
    write_undesirable();
    TORCH_CHECK(report_.rows > 0, "[data] ", reader_.location(1), ": the file has no rows");
    writer_.commit(report_.to_json());
  }

 private:
  std::vector<RowText> next_batch() {
    const int64_t max_rows = options_.max_rows < 0 ? -1 : options_.max_rows - rows_read_;
    auto rows = read_batch(reader_, max_rows);
    rows_read_ += static_cast<int64_t>(rows.size());
    return rows;
  }

  std::vector<TokenizeOutcome> tokenize(const std::vector<RowText>& rows) const {
    return process_rows<TokenizeOutcome>(rows, [&](const RowText& text, TokenizeOutcome& outcome) {
      const Json row = text.parse();
      outcome.format = rules_.describe(row);
      outcome.row = rules_.tokenize(row);
    });
  }

  void take(int64_t line, TokenizeOutcome outcome) {
    ++report_.rows;
    if (!outcome.format.empty()) {
      check_format(line, outcome.format);
    }
    if (!outcome.error.empty()) {
      take_bad_row(line, std::move(outcome.error));
    }
    if (!outcome.row.hint.empty() && report_.hint_count++ == 0) {
      report_.hint = {line, std::move(outcome.row.hint)};
    }
    report_.ends_with_pad_count += outcome.row.ends_with_pad ? 1 : 0;
    for (const ExampleLength& length : outcome.row.lengths) {
      report_.lengths.add(length);
    }
    auto examples = static_cast<int64_t>(outcome.row.examples.size());
    for (const auto& [reason, count] : outcome.row.dropped) {
      report_.dropped[reason] += count;
      examples += count;
    }
    const bool is_split = examples > 1;  // also if all but one were dropped
    for (Example& example : outcome.row.examples) {
      example.location.line = line;
      if (is_split && !example.desirable) {
        undesirable_.push_back(std::move(example));
      } else {
        writer_.add(example);
      }
    }
    if (report_.rows % kRowsSplitTogether == 0) {
      write_undesirable();
    }
  }

  void take_bad_row(int64_t line, std::string reason) {
    TORCH_CHECK(options_.skip_bad_rows, "[data] ", reader_.location(line), ": ", reason);
    ++report_.bad_row_count;
    if (report_.bad_rows.size() < kBadRowsKept) {
      report_.bad_rows.push_back({line, std::move(reason)});
    }
  }

  /// skip_bad_rows does not apply here: half of the data may follow the other convention.
  void check_format(int64_t line, const std::string& format) {
    if (report_.format.empty()) {
      report_.format = format;
      report_.format_line = line;
    }
    check_same_format({reader_.location(report_.format_line), report_.format},
                      {reader_.location(line), format});
  }

  void write_undesirable() {
    for (const Example& example : undesirable_) {
      writer_.add(example);
    }
    undesirable_.clear();
  }

  RowReader reader_;
  const RowRules& rules_;
  const TokenizeFileOptions& options_;
  ExampleCacheWriter writer_;
  FileReport report_;
  int64_t rows_read_ = 0;
  std::vector<Example> undesirable_;  // Note [Order of split pairs]
};

}  // namespace

void tokenize_file(const std::filesystem::path& file,
                   const RowRules& rules,
                   const TokenizeFileOptions& options,
                   const std::filesystem::path& folder) {
  FileTokenizer(file, rules, options, folder).run();
}

}  // namespace reprise::data
