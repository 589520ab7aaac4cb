// Counting large tensors, and watching single ones.
#pragma once

#include "law/programs.h"

namespace reprise::testing {

inline constexpr int64_t kBig = 64 * 1024;  // floats

using WeakBytes = c10::weak_intrusive_ptr<c10::StorageImpl>;

inline WeakBytes weak(const at::Tensor& tensor) {
  return tensor.storage().getWeakStorageImpl();
}

/// Live bytes in tensors of kBig floats, rounded.
inline int64_t live_tensors() {
  return (live_bytes(at::kCPU) + 2 * kBig) / (4 * kBig);
}

/// Calls `test` in every way, the plain one included: what it claims holds there, too.
inline void in_every_way(const std::function<void(const Way&)>& test,
                         const std::vector<Way>& others = all_ways()) {
  test(Way());
  for (const auto& way : others) {
    SCOPED_TRACE(way.name());
    test(way);
  }
}

}  // namespace reprise::testing
