// Rows are read in batches, which several threads tokenise; their results are used in the order of
// the file, so that neither examples nor errors depend on the threads.
#include "data/tokenize_file.h"

#include "data/example_cache.h"
#include "data/file_report.h"

#include <reprise/data/row_reader.h>

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <string>
#include <utility>
#include <vector>

namespace reprise::detail {
namespace {

constexpr size_t kBatchRows = 1000;
constexpr size_t kBatchBytes = size_t{16} << 20;

/// Note [Order of split pairs]
/// A pair of completions is two examples for kto, one desirable and one not. TRL splits pairs by
/// datasets.map, which works on 1000 rows at a time: the desirable examples of all of them come
/// first, then the others.
constexpr int64_t kRowsSplitTogether = 1000;

/// What a thread made of a row: a result or an error.
struct Outcome {
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
      : reader_(file), rules_(rules), options_(options), writer_(folder) {}

  void run() {
    for (auto rows = read_batch(); !rows.empty(); rows = read_batch()) {
      auto outcomes = tokenize(rows);
      for (size_t i = 0; i < rows.size(); ++i) {
        take(rows[i].line, std::move(outcomes[i]));
      }
      if (options_.progress) {
        options_.progress(report_.rows, reader_.fraction());
      }
    }
    write_undesirable();
    TORCH_CHECK(report_.rows > 0, "[data] ", reader_.place(1), ": the file has no rows");
    writer_.commit(report_.to_json());
  }

 private:
  std::vector<RowText> read_batch() {
    std::vector<RowText> rows;
    size_t bytes = 0;
    while (rows.size() < kBatchRows && bytes < kBatchBytes &&
           (options_.max_rows < 0 || rows_read_ < options_.max_rows)) {
      auto row = reader_.next_text();
      if (!row) {
        break;
      }
      ++rows_read_;
      bytes += row->text.size();
      rows.push_back(std::move(*row));
    }
    return rows;
  }

  std::vector<Outcome> tokenize(const std::vector<RowText>& rows) const {
    std::vector<Outcome> outcomes(rows.size());
    at::parallel_for(0, static_cast<int64_t>(rows.size()), 1, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        outcomes[i] = tokenize(rows[i]);
      }
    });
    return outcomes;
  }

  Outcome tokenize(const RowText& text) const {
    Outcome outcome;
    try {
      const Json row = text.parse();
      outcome.format = rules_.describe(row);
      outcome.row = rules_.tokenize(row);
    } catch (const c10::Error& error) {
      outcome.error = error.what_without_backtrace();
    } catch (const std::exception& error) {
      outcome.error = error.what();
    }
    return outcome;
  }

  void take(int64_t line, Outcome outcome) {
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
    auto examples = static_cast<int64_t>(outcome.row.examples.size());
    for (const auto& [reason, count] : outcome.row.dropped) {
      report_.dropped[reason] += count;
      examples += count;
    }
    const bool is_split = examples > 1;  // even if only one of them is left
    for (Example& example : outcome.row.examples) {
      example.place.line = line;
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
    TORCH_CHECK(options_.skip_bad_rows, "[data] ", reader_.place(line), ": ", reason);
    ++report_.bad_row_count;
    if (report_.bad_rows.size() < kBadRowsKept) {
      report_.bad_rows.push_back({line, std::move(reason)});
    }
  }

  /// Not a bad row that could be skipped: half of the data may be of the other convention.
  void check_format(int64_t line, const std::string& format) {
    if (report_.format.empty()) {
      report_.format = format;
      report_.format_line = line;
    }
    check_same_format({reader_.place(report_.format_line), report_.format},
                      {reader_.place(line), format});
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

}  // namespace reprise::detail
