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

}  // namespace reprise::detail
