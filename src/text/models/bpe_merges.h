// Byte-pair merging of one word, in O(n log n) of its length, so that a long text without spaces is
// not a problem.
#pragma once

#include "text/models/vocabulary.h"

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace reprise::text {

/// A symbol of a word: a token and its length in bytes.
struct BpeSymbol {
  TokenId id;
  uint32_t length;
};

class BpeMerges {
 public:
  struct Merge {
    uint32_t rank;
    TokenId result;
  };

  void reserve(size_t count) { merges_.reserve(count); }
  /// If a pair is added twice, the later rank is used.
  void add(TokenId left, TokenId right, Merge merge);
  const Merge* find(TokenId left, TokenId right) const;
  /// Calls visit(left, right) for every merge.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const auto& [pair, merge] : merges_) {
      visit(static_cast<TokenId>(pair >> 32), static_cast<TokenId>(pair));
    }
  }

  /// Merges adjacent symbols, lowest rank first and leftmost in a tie, until no merge applies.
  void apply(std::vector<BpeSymbol>& word) const;

 private:
  struct PairHash {
    size_t operator()(uint64_t pair) const {
      pair *= 0x9E3779B97F4A7C15;  // mixes ids into the high bits, which are then folded into the
                                   // low ones
      return static_cast<size_t>(pair ^ (pair >> 32));
    }
  };
  std::unordered_map<uint64_t, Merge, PairHash> merges_;
};

}  // namespace reprise::text
