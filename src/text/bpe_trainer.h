// Learning merges from counted words. Deterministic: of equally frequent pairs the one with the
// smaller ids comes first, whatever the order of the words.
#pragma once

#include "text/vocabulary.h"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::detail {

struct CountedWord {
  std::vector<TokenId> symbols;
  int64_t count;
};

struct LearnedMerge {
  TokenId left, right;  ///< makes the next id
};

/// Merges the most frequent pair, again and again: at most `most` times and while it occurs
/// `min_frequency` times. New ids count up from `first_id`.
std::vector<LearnedMerge> learn_merges(std::vector<CountedWord> words,
                                       TokenId first_id,
                                       size_t most,
                                       int64_t min_frequency);

/// The words of `text` by GPT-2's expression, as bytes, each with its count; sorted.
std::vector<std::pair<std::string, int64_t>> count_words(std::string_view text);

}  // namespace reprise::detail
