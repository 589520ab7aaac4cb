// Builds the trie breadth-first from sorted strings, so that siblings are adjacent.
#include "text/tokenizer/byte_trie.h"

#include <algorithm>

namespace reprise::text {
namespace {

/// A node without children yet: the entries that share its first `depth` bytes.
struct Open {
  size_t node, first, last, depth;
};

}  // namespace

ByteTrie::ByteTrie(std::vector<std::pair<std::string, Value>> entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.first < b.first;
  });
  std::vector<Open> open = {{0, 0, entries.size(), 0}};
  for (size_t i = 0; i < open.size(); ++i) {
    auto [node, first, last, depth] = open[i];
    while (first < last && entries[first].first.size() == depth) {
      nodes_[node].value = depth == 0 ? kNoValue : entries[first].second;
      ++first;
    }
    nodes_[node].first_child = static_cast<uint32_t>(nodes_.size());
    while (first < last) {
      const char byte = entries[first].first[depth];
      size_t end = first;
      while (end < last && entries[end].first[depth] == byte) {
        ++end;
      }
      open.push_back({nodes_.size(), first, end, depth + 1});
      nodes_.push_back({.byte = static_cast<unsigned char>(byte)});
      ++nodes_[node].children;
      first = end;
    }
  }
  for (size_t i = 0; i < nodes_[0].children; ++i) {
    const uint32_t node = nodes_[0].first_child + static_cast<uint32_t>(i);
    root_[nodes_[node].byte] = node;
  }
}

size_t ByteTrie::child(size_t node, char byte) const {
  const auto wanted = static_cast<unsigned char>(byte);
  if (node == 0) {
    return root_[wanted];
  }
  const auto first = nodes_.begin() + nodes_[node].first_child;
  const auto last = first + nodes_[node].children;
  const auto found = std::lower_bound(
      first, last, wanted, [](const Node& a, unsigned char b) { return a.byte < b; });
  return found != last && found->byte == wanted ? static_cast<size_t>(found - nodes_.begin()) : 0;
}

}  // namespace reprise::text
