// Rows for process reward models: answers in steps, each with a label.
#pragma once

#include <reprise/data/rows.h>

#include "data/rows/row_encoder.h"
#include "data/rows/row_fields.h"

#include <string>

namespace reprise::data {

std::string describe_prm(const RowFields& row, const RowOptions& options);

/// The convention is RowOptions::prm. Rows without a label left are dropped: their loss would be 0
/// / 0.
TokenizedRow tokenize_prm(const RowFields& row, const RowEncoder& encoder);

}  // namespace reprise::data
