// open_dataset(): open_rows() with the rules of a RowTokenizer.
#include "data/dataset/row_rules.h"

#include <reprise/data/dataset.h>

#include <c10/util/Exception.h>

namespace reprise {

OpenedDataset open_dataset(const RowTokenizer& rows, const DatasetOptions& options) {
  TORCH_CHECK(
      !options.tokenizer_key.empty(),
      "[data] expected a tokenizer_key: without one, a cache made by another tokenizer would be "
      "accepted");
  const data::RowRules rules{
      .describe = [&](const Json& row) { return rows.describe(row); },
      .tokenize = [&](const Json& row) { return rows.tokenize(row); },
      .key = rows.options().to_json(),
  };
  return data::open_rows(rules, options);
}

}  // namespace reprise
