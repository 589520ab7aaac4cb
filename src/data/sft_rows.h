// Rows of supervised fine-tuning and distillation: texts, chats, and prompts with a completion.
#pragma once

#include <reprise/data/rows.h>

#include "data/passage_encoder.h"
#include "data/row_fields.h"

#include <string>

namespace reprise::detail {

std::string describe_sft(const RowFields& row, const RowOptions& options);

TokenizedRow tokenize_sft(const RowFields& row, const PassageEncoder& encoder);

}  // namespace reprise::detail
