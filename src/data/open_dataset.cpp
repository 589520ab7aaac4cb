// open_dataset(): the rules of a RowTokenizer, for code that knows files only.
#include "data/row_rules.h"

#include <reprise/data/dataset.h>

#include <c10/util/Exception.h>

namespace reprise {

OpenedDataset open_dataset(const RowTokenizer& rows, const DatasetOptions& options) {
  TORCH_CHECK(!options.tokenizer_key.empty(),
              "[data] expected a tokenizer_key: without one, another tokenizer's cache would do");
  const detail::RowRules rules{
      .describe = [&](const Json& row) { return rows.describe(row); },
      .tokenize = [&](const Json& row) { return rows.tokenize(row); },
      .key = rows.options().to_json(),
  };
  return detail::open_rows(rules, options);
}

}  // namespace reprise
