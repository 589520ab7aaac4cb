// Rows with one answer and a label whether it is desirable, for kto.
#pragma once

#include <reprise/data/rows.h>

#include "data/rows/row_encoder.h"
#include "data/rows/row_fields.h"

#include <string>

namespace reprise::data {

std::string describe_kto(const RowFields& row, const RowOptions& options);

/// Each completion is limited to max_length tokens by itself; collate() truncates prompt and
/// completion together, because in Batch::mismatched the prompt is another row's.
TokenizedRow tokenize_kto(const RowFields& row, const RowEncoder& encoder);

}  // namespace reprise::data
