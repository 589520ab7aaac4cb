// Everything that touches LibTorch's autograd engine: where saved tensors are intercepted, and when
// a backward call begins and ends. One engine per process, in this shared object.
#pragma once

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <cstdint>
#include <memory>

namespace reprise::detail {

class Frame;

/// Supplies the hooks for tensors that autograd saves on this thread while it is on top.
class HookSource {
 public:
  virtual std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks() = 0;

 protected:
  ~HookSource() = default;
};

/// Puts a source on top of this thread's stack.
///
/// Note [A backward call inside a region]
/// Its nodes run on this thread, or on a device thread that knows nothing of the region, depending
/// on device and on where the region runs. So that forward and recompute see the same either way, a
/// source (and an operator observer) serves only what the region does itself, not what a backward
/// call inside it does: it is bound to the backward call that was running when it was put there, or
/// to none.
class HookSourceGuard {
 public:
  explicit HookSourceGuard(HookSource* source);
  ~HookSourceGuard();
  HookSourceGuard(const HookSourceGuard&) = delete;
  HookSourceGuard& operator=(const HookSourceGuard&) = delete;

 private:
  HookSource* previous_;
  int previous_graph_task_;
};

/// Throws unless saved tensors really come to us: another library may have put in its own engine.
void require_engine();

/// Identifies what recomputed tensors belong to: one backward call, or one GraphExecGroup.
using TaskKey = uint64_t;

/// The key of the backward call that runs on this thread; 0 outside of one.
TaskKey current_task();

/// Has `frame` drop its recomputed tensors when the task ends, however it ends.
void release_at_task_end(TaskKey task, std::weak_ptr<Frame> frame);

}  // namespace reprise::detail
