// Rows of process reward models: answers in steps, each judged by itself.
#pragma once

#include <reprise/data/rows.h>

#include "data/passage_encoder.h"
#include "data/row_fields.h"

#include <string>

namespace reprise::detail {

std::string describe_prm(const RowFields& row, const RowOptions& options);

/// By RowOptions::prm. Rows without a label left are dropped: their loss would be 0 / 0.
TokenizedRow tokenize_prm(const RowFields& row, const PassageEncoder& encoder);

}  // namespace reprise::detail
