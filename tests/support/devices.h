// Which devices tests run on. Nothing links CUDA: its LibTorch library is loaded when it is there.
#pragma once

#include <ATen/Context.h>
#include <c10/core/Device.h>

#include <dlfcn.h>

#include <vector>

namespace reprise::testing {

/// Before the first call into LibTorch: it asks for its CUDA part once.
inline void load_cuda() {
  dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL);
}

inline bool has_cuda() {
  return at::globalContext().hasCUDA() && at::detail::getCUDAHooks().deviceCount() > 0;
}

/// The CPU, and the GPU where there is one.
inline std::vector<c10::DeviceType> devices() {
  std::vector<c10::DeviceType> list{c10::kCPU};
  if (has_cuda()) {
    list.push_back(c10::kCUDA);
  }
  return list;
}

#define REPRISE_REQUIRE_CUDA()                                   \
  do {                                                           \
    if (!reprise::testing::has_cuda()) {                         \
      GTEST_SKIP() << "needs a GPU and LibTorch's CUDA library"; \
    }                                                            \
  } while (false)

}  // namespace reprise::testing
