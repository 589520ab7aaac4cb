// Rows with a better and a worse answer: dpo and rm; kto takes them as two examples.
#pragma once

#include <reprise/data/rows.h>

#include "data/passage_encoder.h"
#include "data/row_fields.h"

#include <optional>
#include <string>
#include <vector>

namespace reprise::detail {

struct AnswerPair {
  std::optional<Passage> prompt;  ///< none: both answers begin with it
  Passage chosen, rejected;
};

struct PairRow {
  std::string convention;
  std::vector<AnswerPair> pairs;  ///< one, unless the row lists answers and which beats which
};

bool has_pairs(const RowFields& row);
/// Conventions that read_pairs takes, for messages.
const std::vector<std::string>& pair_conventions();
/// `objective` is for messages. Throws if the row has none.
PairRow read_pairs(const RowFields& row, const RowOptions& options, const std::string& objective);

/// The same pair with a prompt of its own.
AnswerPair with_prompt(const AnswerPair& pair);

TokenizedRow tokenize_dpo(const RowFields& row, const PassageEncoder& encoder);
TokenizedRow tokenize_rm(const RowFields& row, const PassageEncoder& encoder);

}  // namespace reprise::detail
