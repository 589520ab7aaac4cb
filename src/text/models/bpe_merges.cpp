// The merge loop: a linked list of symbols and a heap of candidate merges. Candidates that have
// become stale by the time they are popped are detected and dropped.
#include "text/models/bpe_merges.h"

#include <algorithm>
#include <queue>
#include <tuple>

namespace reprise::text {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

struct Link {
  uint32_t previous, next;
};

struct MergeStep {
  uint32_t rank;
  uint32_t at;  // left symbol
  TokenId result;

  bool operator<(const MergeStep& other) const {
    return std::tie(rank, at) > std::tie(other.rank, other.at);  // top of the heap: lowest
  }
};

uint64_t pair_key(TokenId left, TokenId right) {
  return (uint64_t{left} << 32) | right;
}

}  // namespace

void BpeMerges::add(TokenId left, TokenId right, Merge merge) {
  merges_.insert_or_assign(pair_key(left, right), merge);
}

const BpeMerges::Merge* BpeMerges::find(TokenId left, TokenId right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BpeMerges::apply(std::vector<BpeSymbol>& word) const {
  const auto size = static_cast<uint32_t>(word.size());
  std::vector<Link> links(size);
  std::vector<MergeStep> candidates;
  candidates.reserve(size);
  const auto propose = [&](uint32_t left, uint32_t right, auto&& push) {
    if (const Merge* merge = find(word[left].id, word[right].id)) {
      push(MergeStep{merge->rank, left, merge->result});
    }
  };
  for (uint32_t i = 0; i < size; ++i) {
    links[i] = {i == 0 ? kNone : i - 1, i + 1 == size ? kNone : i + 1};
    if (i + 1 < size) {
      propose(i, i + 1, [&](const MergeStep& c) { candidates.push_back(c); });
    }
  }
  std::priority_queue<MergeStep> queue(std::less<MergeStep>(), std::move(candidates));
  const auto enqueue = [&](const MergeStep& c) { queue.push(c); };
  while (!queue.empty()) {
    const MergeStep top = queue.top();
    queue.pop();
    const uint32_t right = links[top.at].next;
    if (word[top.at].length == 0 || right == kNone) {
      continue;
    }
    const Merge* merge = find(word[top.at].id, word[right].id);
    if (merge == nullptr || merge->result != top.result) {
      continue;
    }
    word[top.at] = {top.result, word[top.at].length + word[right].length};
    word[right].length = 0;
    const uint32_t after = links[right].next;
    links[top.at].next = after;
    if (after != kNone) {
      links[after].previous = top.at;
      propose(top.at, after, enqueue);
    }
    if (const uint32_t before = links[top.at].previous; before != kNone) {
      propose(before, top.at, enqueue);
    }
  }
  std::erase_if(word, [](const BpeSymbol& symbol) { return symbol.length == 0; });
}

}  // namespace reprise::text
