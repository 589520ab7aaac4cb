// Whether options that apply to some kinds of rows only have an effect on the kind that a file has.
#pragma once

#include <reprise/data/rows.h>

#include "data/row_fields.h"

#include <string>

namespace reprise::detail {

/// What a row turned out to be, as far as options depend on it.
struct RowKind {
  std::string convention;  ///< for messages
  bool is_chat = false;
  bool has_text_prompt = false;  ///< that input_template is put around
};

/// Throws if input_template, chat_template or the name of a key has no effect on such a row. To be
/// called when all that the row must have has been read; what it may have (tools, margin) counts as
/// read where it would be.
void check_row_effects(const RowFields& row, const RowKind& kind, const RowOptions& options);

}  // namespace reprise::detail
