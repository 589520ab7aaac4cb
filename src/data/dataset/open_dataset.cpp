// open_dataset(): open_rows() with the rules of a RowTokenizer.
#include "data/dataset/row_rules.h"

#include <reprise/data/dataset.h>

#include <c10/util/Exception.h>

#include <cstdint>
#include <limits>

namespace reprise {

namespace {

/// The longest sequence that tokenising can give; 0: no limit.
int64_t longest_sequence_of(const RowOptions& options) {
  // kto limits prompt and completion one by one.
  const bool adds_up = options.objective == Objective::Kto &&
                       options.max_length <= std::numeric_limits<int64_t>::max() / 2;
  return options.max_length * (adds_up ? 2 : 1);
}

}  // namespace

OpenedDataset open_dataset(const RowTokenizer& rows, const DatasetOptions& options) {
  TORCH_CHECK(
      !options.tokenizer_key.empty(),
      "[data] expected a tokenizer_key: without one, a cache made by another tokenizer would be "
      "accepted");
  const data::RowRules rules{
      .describe = [&](const Json& row) { return rows.describe(row); },
      .tokenize = [&](const Json& row) { return rows.tokenize(row); },
      .key = rows.options().to_json(),
      .max_length = longest_sequence_of(rows.options()),
  };
  return data::open_rows(rules, options);
}

}  // namespace reprise
