// From a job's run-time type and flags to template arguments. Host code only.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <climits>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <type_traits>

#include "ops/cuda/kernels.h"

namespace reprise::cuda {

/// Calls f(std::type_identity<T>{}) with the C++ type of the values.
template <class F>
void with_type(Type type, F&& f) {
  switch (type) {
    case Type::BFloat16:
      return f(std::type_identity<__nv_bfloat16>{});
    case Type::Half:
      return f(std::type_identity<__half>{});
    case Type::Float:
      return f(std::type_identity<float>{});
  }
}

/// Calls f(std::bool_constant<flag>{}).
template <class F>
void with_flag(bool flag, F&& f) {
  flag ? f(std::true_type{}) : f(std::false_type{});
}

inline int64_t bytes_of(Type type) {
  return type == Type::Float ? 4 : 2;
}

/// Whether all of these are aligned to 16 bytes (null is).
inline bool are_aligned(std::initializer_list<const void*> pointers) {
  uintptr_t bits = 0;
  for (const void* pointer : pointers) {
    bits |= reinterpret_cast<uintptr_t>(pointer);
  }
  return bits % 16 == 0;
}

/// A size as int, which kernels use within rows and for grids. Leaves headroom for one step past
/// the end.
inline int narrow(int64_t size) {
  if (size < 0 || size > INT_MAX - (1 << 16)) {
    throw std::runtime_error("[cuda] a size is too large for the kernel's 32-bit indices");
  }
  return static_cast<int>(size);
}

}  // namespace reprise::cuda
