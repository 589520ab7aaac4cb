// Rows with one answer and whether it is desirable: kto.
#pragma once

#include <reprise/data/rows.h>

#include "data/passage_encoder.h"
#include "data/row_fields.h"

#include <string>

namespace reprise::detail {

std::string describe_kto(const RowFields& row, const RowOptions& options);

/// Completions are not cut to max_length, only limited to it: what is left of one depends on the
/// prompt it is put behind, which is another row's in Batch::mismatched. collate() cuts.
TokenizedRow tokenize_kto(const RowFields& row, const PassageEncoder& encoder);

}  // namespace reprise::detail
