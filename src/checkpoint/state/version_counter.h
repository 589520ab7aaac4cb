// The number of in-place changes of a tensor. Inference tensors do not count them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise::detail {

inline uint32_t current_version(const c10::VariableVersion& counter) {
  return counter.enabled() ? counter.current_version() : 0;
}

inline uint32_t current_version(const at::Tensor& tensor) {
  return current_version(tensor.unsafeGetTensorImpl()->version_counter());
}

inline void set_version(c10::VariableVersion& counter, uint32_t version) {
  if (counter.enabled()) {
    counter.set_version(version);
  }
}

/// Whether the two are one counter, which aliases share.
inline bool is_same_counter(c10::VariableVersion a, const c10::VariableVersion& b) {
  if (!a.enabled() || !b.enabled() || a.current_version() != b.current_version()) {
    return false;
  }
  const auto version = a.current_version();
  a.set_version(version + 1);
  const bool is_same = b.current_version() == version + 1;
  a.set_version(version);
  return is_same;
}

}  // namespace reprise::detail
