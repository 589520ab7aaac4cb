// Everything that touches LibTorch's autograd engine: the interception of saved tensors, and the
// begin and end of backward calls. There is one engine per process, in this shared object.
#pragma once

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace reprise::detail {

class Frame;

/// Creates the hooks for the tensors that autograd saves on this thread while it is on top of the
/// stack.
class HookSource {
 public:
  virtual std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks() = 0;

 protected:
  ~HookSource() = default;
};

/// Pushes a source onto this thread's stack. Null: tensors are saved as without regions.
///
/// Note [A backward call inside a region]
/// The nodes of such a call run on this thread, or on a device thread that knows nothing about the
/// region, depending on the device and on where the region runs. For forward and recompute to see
/// the same in both cases, a source (like an operator observer) only serves what the region does
/// itself, not what a backward call inside it does: the engine hides it while such a call runs.
class HookSourceGuard {
 public:
  explicit HookSourceGuard(HookSource* source);
  ~HookSourceGuard();
  HookSourceGuard(const HookSourceGuard&) = delete;
  HookSourceGuard& operator=(const HookSourceGuard&) = delete;

 private:
  HookSource* previous_;
  size_t host_hooks_;
};

/// Counts the tensors that autograd saves on this thread in its scope, with wrapped numbers, which
/// are never packed. What regions inside the scope save does not count, nor what a backward call
/// inside it saves.
class SaveCounter {
 public:
  enum class Scope : uint8_t { Plain, Region };
  /// Region: what counts is saved through a hook source that is about to be pushed.
  explicit SaveCounter(Scope scope);
  ~SaveCounter();
  SaveCounter(const SaveCounter&) = delete;
  SaveCounter& operator=(const SaveCounter&) = delete;

  size_t count() const { return count_; }
  /// Autograd saves a tensor on this thread.
  static void note_save();

 private:
  SaveCounter* const previous_;
  const int depth_;
  const int graph_task_;
  size_t count_ = 0;
};

/// Throws if another library has installed its own engine, so that saved tensors would not be
/// intercepted.
void require_engine();

/// Identifies the owner of recomputed tensors: a backward call or a GraphExecGroup.
using TaskKey = uint64_t;

/// The key of the backward call that runs on this thread; 0 if there is none.
TaskKey current_task();

/// Makes `frame` drop its recomputed tensors when the task ends, by return or by exception.
void release_at_task_end(TaskKey task, std::weak_ptr<Frame> frame);

}  // namespace reprise::detail
