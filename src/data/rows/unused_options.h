// Refuses options that have no effect on the kind of rows that a file has.
#pragma once

#include <reprise/data/rows.h>

#include "data/rows/row_fields.h"

#include <string>

namespace reprise::data {

/// Properties of a row that options depend on.
struct RowKind {
  std::string convention;  ///< for error messages
  bool is_chat = false;
  bool has_text_prompt = false;  ///< to which input_template applies
};

/// Throws if input_template, chat_template or a key name has no effect on such a row. Call it after
/// all required keys were read; optional keys (tools, margin) count as read where they apply.
void refuse_unused_options(const RowFields& row, const RowKind& kind, const RowOptions& options);

}  // namespace reprise::data
