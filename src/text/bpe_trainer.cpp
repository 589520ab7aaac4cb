// The loop of byte-pair training. Pair counts are kept up to date while words change, and a heap
// gives the next pair, so that a merge costs what it touches and not the whole text.
#include "text/bpe_trainer.h"

#include "text/pre_tokenizer.h"
#include "text/unicode.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <unordered_map>

namespace reprise::detail {
namespace {

constexpr size_t kChunk = 1 << 20;

/// The end of a chunk of about kChunk bytes where the expression cannot tell that the text was cut:
/// behind a line feed between two characters that are not white space.
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

struct Candidate {
  int64_t count;
  LearnedMerge pair;

  bool operator<(const Candidate& other) const {  // top of the heap: most frequent, smallest ids
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

  /// The most frequent pair, if one occurs so often.
  bool next(int64_t min_frequency, LearnedMerge& pair) {
    while (!queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      const auto found = pairs_.find(key(top.pair.left, top.pair.right));
      const int64_t now = found == pairs_.end() ? 0 : found->second.count;
      if (now == top.count) {
        pair = top.pair;
        return now >= min_frequency;
      }
      // Its count fell since it was put here. A count that rose was put here again.
      if (now > 0 && now < top.count) {
        queue_.push({now, top.pair});
      }
    }
    return false;
  }

  void merge(const LearnedMerge& pair, TokenId id) {
    std::vector<size_t> places = std::move(pairs_.at(key(pair.left, pair.right)).words);
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    for (const size_t place : places) {
      merge_word(place, pair, id);
    }
    pairs_.erase(key(pair.left, pair.right));
    flush();
  }

 private:
  struct Pair {
    int64_t count = 0;
    std::vector<size_t> words;  // that may have it
  };

  void count(TokenId left, TokenId right, int64_t change, size_t word) {
    Pair& pair = pairs_[key(left, right)];
    pair.count += change;
    if (change > 0) {
      pair.words.push_back(word);
      risen_.push_back({left, right});
    }
  }

  /// Puts pairs whose count rose into the queue, with the count they have now.
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

  void merge_word(size_t place, const LearnedMerge& pair, TokenId id) {
    CountedWord& word = words_[place];
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
    recount(place, symbols, merged, word.count);
    symbols = std::move(merged);
  }

  /// Takes the old neighbours out of the counts and puts the new ones in.
  void recount(size_t place,
               const std::vector<TokenId>& before,
               const std::vector<TokenId>& after,
               int64_t times) {
    for (size_t at = 0; at + 1 < before.size(); ++at) {
      pairs_[key(before[at], before[at + 1])].count -= times;
    }
    for (size_t at = 0; at + 1 < after.size(); ++at) {
      count(after[at], after[at + 1], times, place);
    }
  }

  std::vector<CountedWord> words_;
  std::unordered_map<uint64_t, Pair> pairs_;
  std::vector<LearnedMerge> risen_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

std::vector<LearnedMerge> learn_merges(std::vector<CountedWord> words,
                                       TokenId first_id,
                                       size_t most,
                                       int64_t min_frequency) {
  Trainer trainer(std::move(words));
  std::vector<LearnedMerge> merges;
  LearnedMerge pair{};
  while (merges.size() < most && trainer.next(min_frequency, pair)) {
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

}  // namespace reprise::detail
