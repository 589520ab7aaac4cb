// A trie over bytes, to find all strings that a text begins with. Immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::text {

class ByteTrie {
 public:
  using Value = uint32_t;
  static constexpr Value kNoValue = UINT32_MAX;

  ByteTrie() = default;
  /// For equal strings the last value is used. Empty strings are ignored.
  explicit ByteTrie(std::vector<std::pair<std::string, Value>> entries);

  bool empty() const { return nodes_.size() <= 1; }

  /// Calls found(length, value) for each entry that is a prefix of `text`, shortest first.
  template <typename Found>
  void prefixes(std::string_view text, Found found) const {
    size_t node = 0;
    for (size_t length = 0; length < text.size();) {
      node = child(node, text[length]);
      if (node == 0) {
        return;
      }
      ++length;
      if (nodes_[node].value != kNoValue) {
        found(length, nodes_[node].value);
      }
    }
  }

 private:
  /// The children of a node are adjacent and sorted by byte.
  struct Node {
    uint32_t first_child = 0;
    uint16_t children = 0;
    unsigned char byte = 0;
    Value value = kNoValue;
  };

  size_t child(size_t node, char byte) const;  // 0 if there is none

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::vector<uint32_t> root_ = std::vector<uint32_t>(256);
};

}  // namespace reprise::text
