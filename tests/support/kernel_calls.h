// Counts how often an operator's kernel really runs: below autograd, and below what answers calls
// from kept results.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <atomic>
#include <string>

namespace reprise::testing {

/// Counts while it lives, on every device and thread. One at a time for the same operator.
/// BackendSelect is the last stop before the kernel, and only factories use it for something else.
class KernelCalls {
 public:
  explicit KernelCalls(const std::string& space, const std::string& op)
      : library_(torch::Library::IMPL, space, c10::DispatchKey::BackendSelect, __FILE__, __LINE__) {
    library_.impl(op.c_str(), torch::CppFunction::makeFromBoxedFunction<&KernelCalls::count>());
    calls_ = 0;
  }
  KernelCalls(const KernelCalls&) = delete;
  KernelCalls& operator=(const KernelCalls&) = delete;

  size_t get() const { return calls_; }
  void reset() { calls_ = 0; }

 private:
  static void count(const c10::OperatorHandle& op,
                    c10::DispatchKeySet keys,
                    torch::jit::Stack* stack) {
    ++calls_;
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER,
                                                  c10::DispatchKey::BackendSelect),
                       stack);
  }

  static inline std::atomic<size_t> calls_{0};
  torch::Library library_;
};

}  // namespace reprise::testing
