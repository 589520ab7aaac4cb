// Operators that have been registered since one last looked: libraries may be loaded at any time.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/dispatch/RegistrationHandleRAII.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

namespace reprise::detail {

/// Registers kernels for operators, as these come. Never destroy one: at exit, operators may be
/// gone before their kernels are unregistered.
class OperatorWatch {
 public:
  OperatorWatch();

  /// Calls `add(op)` for all operators, unless none has been registered since the last call. Other
  /// threads wait.
  void update(const std::function<void(const c10::OperatorHandle&)>& add);
  /// The next update visits all operators again.
  void look_again() { found_operators_.fetch_add(1, std::memory_order_acq_rel); }

  /// Call it from `add`.
  void register_kernel(const c10::OperatorHandle& op,
                       c10::DispatchKey key,
                       c10::KernelFunction kernel);

 private:
  bool is_up_to_date() const {
    return observed_.load(std::memory_order_acquire) ==
           found_operators_.load(std::memory_order_acquire);
  }

  std::mutex mutex_;
  std::atomic<uint64_t> found_operators_{1};
  std::atomic<uint64_t> observed_{0};
  c10::RegistrationHandleRAII listening_;
  std::vector<c10::RegistrationHandleRAII> kernels_;
};

/// Registers the fallback of a key. Empty if another library has one: two would be an error in a
/// static initialiser, which ends the process.
std::optional<c10::RegistrationHandleRAII> register_fallback(c10::DispatchKey key,
                                                             c10::KernelFunction kernel);

}  // namespace reprise::detail
