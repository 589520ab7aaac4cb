// Rows with a better and a worse answer, for dpo and rm; kto makes two examples of them.
#pragma once

#include <reprise/data/rows.h>

#include "data/rows/row_encoder.h"
#include "data/rows/row_fields.h"

#include <optional>
#include <string>
#include <vector>

namespace reprise::data {

struct AnswerPair {
  std::optional<TextOrChat> prompt;  ///< unset: both answers begin with it
  TextOrChat chosen, rejected;
};

struct PairRow {
  std::string convention;
  std::vector<AnswerPair> pairs;  ///< one, unless the row has `responses` and `pairs`
};

bool has_pairs(const RowFields& row);
/// The conventions that read_pairs() accepts, for error messages.
const std::vector<std::string>& pair_conventions();
/// Throws if the row has no pairs. `objective` is for error messages.
PairRow read_pairs(const RowFields& row, const RowOptions& options, const std::string& objective);

/// Splits off the common prompt of both answers, if the pair has none yet.
AnswerPair with_prompt(const AnswerPair& pair);

TokenizedRow tokenize_dpo(const RowFields& row, const RowEncoder& encoder);
TokenizedRow tokenize_rm(const RowFields& row, const RowEncoder& encoder);

}  // namespace reprise::data
