// BPE training. Pair counts are updated incrementally and a heap gives the next pair, so that the
// cost of a merge depends on the words it changes, not on the whole text.
#include "text/models/bpe_trainer.h"

#include "text/tokenizer/pre_tokenizer.h"
#include "text/unicode/unicode.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <unordered_map>

namespace reprise::text {
namespace {

constexpr size_t kChunk = 1 << 20;

/// The end of a chunk of about kChunk bytes, chosen so that the regular expression gives the same
/// words as without chunks: after a line feed between two characters that are not white space.
size_t chunk_end(std::string_view text, size_t begin) {
  for (size_t at = begin + kChunk; at + 1 < text.size(); ++at) {
    const auto is_plain = [](char c) {
      return static_cast<unsigned char>(c) < 0x80 && !is_white_space(static_cast<char32_t>(c));
    };
    if (text[at] == '\n' && is_plain(text[at - 1]) && is_plain(text[at + 1])) {
      return at + 1;
    }
  }
  return text.size();
}

struct CountedPair {
  int64_t count;
  LearnedMerge pair;

  bool operator<(const CountedPair& other) const {  // top of the heap: most frequent, smallest ids
    return std::tuple(count, other.pair.left, other.pair.right) <
           std::tuple(other.count, pair.left, pair.right);
  }
};

uint64_t key(TokenId left, TokenId right) {
  return (uint64_t{left} << 32) | right;
}

class Trainer {
 public:
  explicit Trainer(std::vector<CountedWord> words) : words_(std::move(words)) {
    for (size_t i = 0; i < words_.size(); ++i) {
      const auto& symbols = words_[i].symbols;
      for (size_t at = 0; at + 1 < symbols.size(); ++at) {
        count(symbols[at], symbols[at + 1], words_[i].count, i);
      }
    }
    flush();
  }

  /// The most frequent pair, if it occurs at least `min_frequency` times.
  bool next(int64_t min_frequency, LearnedMerge& pair) {
    while (!queue_.empty()) {
      const CountedPair top = queue_.top();
      queue_.pop();
      const auto found = pairs_.find(key(top.pair.left, top.pair.right));
      const int64_t now = found == pairs_.end() ? 0 : found->second.count;
      if (now == top.count) {
        pair = top.pair;
        return now >= min_frequency;
      }
      // The count has fallen since it was queued. Pairs whose count rises are queued again.
      if (now > 0 && now < top.count) {
        queue_.push({now, top.pair});
      }
    }
    return false;
  }

  void merge(const LearnedMerge& pair, TokenId id) {
    std::vector<size_t> indices = std::move(pairs_.at(key(pair.left, pair.right)).words);
    std::sort(indices.begin(), indices.end());
    indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
    for (const size_t index : indices) {
      merge_word(index, pair, id);
    }
    pairs_.erase(key(pair.left, pair.right));
    flush();
  }

 private:
  struct Pair {
    int64_t count = 0;
    std::vector<size_t> words;  // that may contain the pair
  };

  void count(TokenId left, TokenId right, int64_t change, size_t word) {
    Pair& pair = pairs_[key(left, right)];
    pair.count += change;
    if (change > 0) {
      pair.words.push_back(word);
      risen_.push_back({left, right});
    }
  }

  /// Queues pairs whose count has risen, with their current count.
  void flush() {
    const auto ids = [](const LearnedMerge& pair) { return key(pair.left, pair.right); };
    std::sort(risen_.begin(), risen_.end(), [&](const auto& a, const auto& b) {
      return ids(a) < ids(b);
    });
    const auto end = std::unique(risen_.begin(), risen_.end(), [&](const auto& a, const auto& b) {
      return ids(a) == ids(b);
    });
    for (auto pair = risen_.begin(); pair != end; ++pair) {
      const auto found = pairs_.find(ids(*pair));
      if (found != pairs_.end() && found->second.count > 0) {
        queue_.push({found->second.count, *pair});
      }
    }
    risen_.clear();
  }

  void merge_word(size_t index, const LearnedMerge& pair, TokenId id) {
    CountedWord& word = words_[index];
    auto& symbols = word.symbols;
    std::vector<TokenId> merged;
    merged.reserve(symbols.size());
    for (size_t at = 0; at < symbols.size();) {
      const bool found =
          at + 1 < symbols.size() && symbols[at] == pair.left && symbols[at + 1] == pair.right;
      merged.push_back(found ? id : symbols[at]);
      at += found ? 2 : 1;
    }
    if (merged.size() == symbols.size()) {
      return;
    }
    recount(index, symbols, merged, word.count);
    symbols = std::move(merged);
  }

  /// Subtracts the old pairs of a word from the counts and adds the new ones.
  void recount(size_t index,
               const std::vector<TokenId>& before,
               const std::vector<TokenId>& after,
               int64_t times) {
    for (size_t at = 0; at + 1 < before.size(); ++at) {
      pairs_[key(before[at], before[at + 1])].count -= times;
    }
    for (size_t at = 0; at + 1 < after.size(); ++at) {
      count(after[at], after[at + 1], times, index);
    }
  }

  std::vector<CountedWord> words_;
  std::unordered_map<uint64_t, Pair> pairs_;
  std::vector<LearnedMerge> risen_;
  std::priority_queue<CountedPair> queue_;
};

}  // namespace

std::vector<LearnedMerge> learn_merges(std::vector<CountedWord> words,
                                       TokenId first_id,
                                       size_t max_merges,
                                       int64_t min_frequency) {
  Trainer trainer(std::move(words));
  std::vector<LearnedMerge> merges;
  LearnedMerge pair{};
  while (merges.size() < max_merges && trainer.next(min_frequency, pair)) {
    trainer.merge(pair, first_id + static_cast<TokenId>(merges.size()));
    merges.push_back(pair);
  }
  return merges;
}

std::vector<std::pair<std::string, int64_t>> count_words(std::string_view text) {
  StringMap<int64_t> counts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = chunk_end(text, begin);
    const std::string_view chunk = text.substr(begin, end - begin);
    for (const auto& [first, last] : gpt2_regex().find_all(chunk)) {
      const std::string_view word = chunk.substr(first, last - first);
      const auto found = counts.find(word);
      if (found != counts.end()) {
        ++found->second;
      } else {
        counts.emplace(word, 1);
      }
    }
    begin = end;
  }
  std::vector<std::pair<std::string, int64_t>> words(counts.begin(), counts.end());
  std::sort(words.begin(), words.end());
  return words;
}

}  // namespace reprise::text
