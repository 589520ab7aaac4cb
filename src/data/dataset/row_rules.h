// What the reader of data files needs to know about rows.
#pragma once

#include <reprise/data/dataset.h>
#include <reprise/data/rows.h>
#include <reprise/export.h>
#include <reprise/io/json.h>

#include <cstdint>
#include <functional>
#include <string>

namespace reprise::data {

/// Both functions must be thread-safe. They throw c10::Error for a bad row.
struct RowRules {
  std::function<std::string(const Json&)> describe;  ///< the convention that a row follows
  std::function<TokenizedRow(const Json&)> tokenize;
  Json key;                ///< everything besides the row that the results depend on
  int64_t max_length = 0;  ///< no sequence of a result is longer, in tokens; 0: no limit
};

/// open_dataset() for any rules.
REPRISE_API OpenedDataset open_rows(const RowRules& rules, const DatasetOptions& options);

}  // namespace reprise::data
