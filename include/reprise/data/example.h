// A row of data, tokenised: what is cached on disk, shuffled and put together to batches.
#pragma once

#include <reprise/export.h>

#include <cstdint>
#include <vector>

namespace reprise {

/// Labels with this value do not count.
inline constexpr int64_t kIgnoredLabel = -100;

/// Where a row came from, for messages.
struct RowPlace {
  int64_t file = 0;  ///< which of the data files
  int64_t line = 0;  ///< from 1; in a JSON array, which element
};

/// Token ids with what each is trained to be.
struct TokenSequence {
  std::vector<int64_t> ids;
  /// As long as ids, aligned with them and not shifted: labels[t] is what position t itself is (a
  /// token id, or a class for a PRM), or kIgnoredLabel. Made from the row's structure, never from
  /// the pad id.
  std::vector<int64_t> labels;
  /// Empty, or as long as ids: the probability that a step is good, for soft labels of a PRM. It
  /// counts where there is a label, which then is the likelier reward token.
  std::vector<float> soft_labels;
  int64_t prompt = 0;  ///< how many ids are the prompt's
};

struct Example {
  /// One for sft, kd, kto and prm; chosen and rejected for dpo and rm; the documents of a packed
  /// row.
  std::vector<TokenSequence> sequences;
  float margin = 0;       ///< rm
  bool desirable = true;  ///< kto
  RowPlace place = {};
};

}  // namespace reprise
