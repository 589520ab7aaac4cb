// Learns BPE merges from word counts. Deterministic: among equally frequent pairs the one with the
// smaller ids comes first, whatever the order of the words.
#pragma once

#include "text/models/vocabulary.h"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::text {

struct CountedWord {
  std::vector<TokenId> symbols;
  int64_t count;
};

struct LearnedMerge {
  TokenId left, right;  ///< merged into the next free id
};

/// Repeatedly merges the most frequent pair, at most `max_merges` times and while a pair occurs at
/// least `min_frequency` times. New ids start at `first_id`.
std::vector<LearnedMerge> learn_merges(std::vector<CountedWord> words,
                                       TokenId first_id,
                                       size_t max_merges,
                                       int64_t min_frequency);

/// The words of `text`, split by GPT-2's regular expression, with their counts. Sorted.
std::vector<std::pair<std::string, int64_t>> count_words(std::string_view text);

}  // namespace reprise::text
