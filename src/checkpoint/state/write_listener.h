// Notices of what the operators of this thread do to tensors beyond computing results.
#pragma once

#include "checkpoint/hot_thread_local.h"
#include "checkpoint/state/hook_order.h"

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ArrayRef.h>
#include <torch/csrc/autograd/edge.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace reprise::detail {

/// Notified of operators that write tensors, on this thread, in the scope of its guard.
class WriteListener {
 public:
  /// Called before the program writes `target`.
  virtual void before_write(const at::Tensor& target) = 0;
  /// Called after the operator has run.
  virtual void after_write() = 0;
  /// Called before a kernel writes `target` below autograd. It is nearly always a tensor that the
  /// kernel made.
  virtual void before_kernel_write(const at::Tensor& /*target*/) {}
  /// Called before the program gives `target` another storage, offset, sizes or strides.
  virtual void before_set(const at::Tensor& /*target*/) {}
  /// Called before a backward call. Returns the number of the last hook that may run in it.
  virtual uint64_t hook_limit() { return kNoHookLimit; }
  /// Called next, with the least of these.
  virtual void before_backward(uint64_t /*hook_limit*/) {}
  /// Called before a backward call that accumulates gradients into leaves.
  virtual void before_accumulation(const torch::autograd::edge_list& /*roots*/) {}
  /// The program sets what it will reset: a recompute that ended in between would leave it set.
  virtual void run_to_end() {}
  /// A hook has been added to `tensor`, with this number.
  virtual void hook_added(const at::Tensor& /*tensor*/, unsigned /*number*/) {}
  /// Whether hooks on `tensor` were added in forward, so that they must not be added again.
  virtual bool adds_hooks_again(const at::Tensor& /*tensor*/) { return false; }
  /// Whether what the program does in its scope is done again in backward.
  virtual bool is_of_region() const { return true; }
  /// The number of the next of these hooks.
  virtual unsigned next_hook(const at::Tensor& /*tensor*/) { return 0; }

 protected:
  explicit WriteListener(bool has_grad_mode = true) : has_grad_mode_(has_grad_mode) {}
  ~WriteListener() = default;

 private:
  friend class WriteListenerGuard;
  friend struct WriteDispatch;
  // False if grad mode is off for the listener's own reasons, not the program's.
  const bool has_grad_mode_;
  WriteListener* outer_ = nullptr;
};

/// Adds `listener` for its scope. Others keep listening, or pause. Null: nobody listens.
class WriteListenerGuard {
 public:
  enum class Others : uint8_t { Listen, Pause };
  WriteListenerGuard(WriteListener* listener, Others others);
  ~WriteListenerGuard();
  WriteListenerGuard(const WriteListenerGuard&) = delete;
  WriteListenerGuard& operator=(const WriteListenerGuard&) = delete;

 private:
  WriteListener* previous_;
};

/// Whether this thread has a listener.
bool has_write_listener();
/// Whether it is one of a region.
bool is_in_region();
/// Notifies this thread's listeners. Returns the number of the last hook that may run in the call.
uint64_t notify_backward(const torch::autograd::edge_list& roots, bool accumulates);
void notify_set(const at::Tensor& target);
void notify_run_to_end();

/// Adds a hook by `add`, unless this is a recompute and forward has added it. Returns its number.
unsigned add_hook(const at::Tensor& tensor, const std::function<unsigned()>& add);
/// Whether this is a recompute, and forward has added the hooks on `tensor`.
bool hooks_were_added(const at::Tensor& tensor);

/// A write in progress on this thread. They form a stack.
struct WriteInFlight {
  explicit WriteInFlight(c10::ArrayRef<at::Tensor> written)
      : targets(written), outer(std::exchange(innermost, this)) {}
  ~WriteInFlight() { innermost = outer; }
  WriteInFlight(const WriteInFlight&) = delete;
  WriteInFlight& operator=(const WriteInFlight&) = delete;

  /// Whether one of them writes the storage of `tensor`.
  static bool is_in_one(const at::Tensor& tensor);

  c10::ArrayRef<at::Tensor> targets;
  WriteInFlight* outer;
  static REPRISE_HOT_THREAD_LOCAL WriteInFlight* innermost;
};

/// Whether the operator that is running on this thread will still write `tensor`. Autograd may save
/// a tensor before it is computed (the noise of rrelu).
inline bool is_about_to_be_written(const at::Tensor& tensor) {
  return WriteInFlight::innermost != nullptr && WriteInFlight::is_in_one(tensor);
}

/// Whether this is the last storage that was allocated on this thread since the innermost listener
/// was added, for example by a factory or for a dropout mask. Then it belongs to the region and has
/// no content yet.
bool was_just_made(const c10::StorageImpl* storage);
/// How many storages have been allocated so on this thread since its outermost listener was added.
size_t storages_made();
/// Whether it was allocated after the first `before` of these. It may have content.
bool was_made_since(size_t before, const c10::StorageImpl* storage);

/// Whether kernels of operators run on this thread, or a program's function in their place.
inline bool is_below_autograd() {
  return c10::impl::tls_local_dispatch_key_set().excluded_.has(c10::DispatchKey::ADInplaceOrView);
}

/// Makes sure that every operator whose effects matter is observed, including those registered
/// since the last call.
void observe_effects();

}  // namespace reprise::detail
