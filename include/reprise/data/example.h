// Tokenised examples: what a row of data becomes, before examples are cached, shuffled and batched.
#pragma once

#include <reprise/export.h>

#include <cstdint>
#include <vector>

namespace reprise {

/// Positions with this label do not contribute to the loss (PyTorch's ignore_index).
inline constexpr int64_t kIgnoredLabel = -100;

/// Where a row came from, for error messages.
struct RowLocation {
  int64_t file = 0;  ///< index into the data files
  int64_t line = 0;  ///< from 1; in a JSON array, the number of the element
};

/// Token ids with a label for each.
struct TokenSequence {
  std::vector<int64_t> ids;
  /// As long as ids and not shifted: labels[t] belongs to ids[t]. It is the token id itself, a
  /// class (process reward models), or kIgnoredLabel. Labels follow from the structure of the row,
  /// never from the pad id.
  std::vector<int64_t> labels;
  /// Empty, or as long as ids: the probability that a step is good, for process reward models with
  /// soft labels. Used only where there is a label; that label is then the likelier reward token.
  std::vector<float> soft_labels;
  int64_t prompt = 0;  ///< number of leading ids that belong to the prompt
};

struct Example {
  /// sft, kd, kto and prm: one sequence. dpo and rm: chosen, then rejected. Packed: one per
  /// document.
  std::vector<TokenSequence> sequences;
  float margin = 0;       ///< rm only
  bool desirable = true;  ///< kto only
  RowLocation location = {};
};

}  // namespace reprise
