// How often a region writes tensors of each size.
//
// Note [Writes that forward did not do]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A region may branch on something that changes before its recompute: whether a gradient exists, a
// counter. Then the recompute would write tensors of the program in the middle of backward, and
// nobody would restore them. A tensor is the recompute's own if it has a history from there or
// comes from a factory; of others, such as kept results, it cannot be told whose they are. So
// forward counts its writes by size, except to activations, and a recompute that writes more such
// tensors of one size is stopped before the write. Fewer are no difference: what a first run makes
// and keeps, later ones find.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::detail {

class WriteCount {
 public:
  void add(const at::Tensor& target) {
    if (auto* entry = find(size_of(target))) {
      ++entry->writes;
    } else {
      entries_.push_back({size_of(target), 1});
    }
  }

  /// False if there are none left.
  bool take(const at::Tensor& target) {
    auto* entry = find(size_of(target));
    if (entry == nullptr || entry->writes == 0) {
      return false;
    }
    --entry->writes;
    return true;
  }

 private:
  struct Entry {
    size_t bytes;
    uint64_t writes;
  };

  /// In bytes, 0 for what has no storage: sparse tensors.
  static size_t size_of(const at::Tensor& target) {
    return target.has_storage() ? target.storage().nbytes() : 0;
  }

  Entry* find(size_t bytes) {
    const auto found = std::find_if(entries_.begin(), entries_.end(), [bytes](const Entry& entry) {
      return entry.bytes == bytes;
    });
    return found == entries_.end() ? nullptr : &*found;
  }

  std::vector<Entry> entries_;
};

}  // namespace reprise::detail
