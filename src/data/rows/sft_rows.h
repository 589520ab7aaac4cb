// Rows of supervised fine-tuning and distillation: texts, chats, and prompts with a completion.
#pragma once

#include <reprise/data/rows.h>

#include "data/rows/row_encoder.h"
#include "data/rows/row_fields.h"

#include <string>

namespace reprise::data {

std::string describe_sft(const RowFields& row, const RowOptions& options);

TokenizedRow tokenize_sft(const RowFields& row, const RowEncoder& encoder);

}  // namespace reprise::data
