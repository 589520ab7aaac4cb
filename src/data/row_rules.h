// What the reading of files needs to know about rows, and no more than that.
#pragma once

#include <reprise/data/dataset.h>
#include <reprise/data/rows.h>
#include <reprise/export.h>
#include <reprise/io/json.h>

#include <functional>
#include <string>

namespace reprise::detail {

/// Both functions may be called by several threads, and throw c10::Error for a bad row.
struct RowRules {
  std::function<std::string(const Json&)> describe;  ///< which convention a row follows
  std::function<TokenizedRow(const Json&)> tokenize;
  Json key;  ///< everything that their results depend on besides the row
};

/// open_dataset() for any rules.
REPRISE_API OpenedDataset open_rows(const RowRules& rules, const DatasetOptions& options);

}  // namespace reprise::detail
