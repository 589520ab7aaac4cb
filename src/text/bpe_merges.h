// Byte-pair merging of one word: n log n in its length, so that a text without spaces is no trap.
#pragma once

#include "text/vocabulary.h"

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace reprise::detail {

/// A part of a word: a token and its length in bytes.
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
  /// A pair given twice has the later rank.
  void add(TokenId left, TokenId right, Merge merge);
  const Merge* find(TokenId left, TokenId right) const;

  /// Merges neighbours, lowest rank first and leftmost among equals, until no pair has a merge.
  void apply(std::vector<BpeSymbol>& word) const;

 private:
  struct PairHash {
    size_t operator()(uint64_t pair) const {
      pair *= 0x9E3779B97F4A7C15;  // spreads ids over the high bits; the table takes low ones
      return static_cast<size_t>(pair ^ (pair >> 32));
    }
  };
  std::unordered_map<uint64_t, Merge, PairHash> merges_;
};

}  // namespace reprise::detail
