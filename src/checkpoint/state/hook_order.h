// The order in which hooks are added to tensors and backward calls are made.
//
// Note [Hooks of a backward call inside]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A recompute repeats the backward calls that its region makes. A hook that was added after such a
// call, inside the region or after it, did not run in the call, and must not run when the call is
// repeated. So every hook has a number, each call of forward remembers the last one, and in the
// recompute later hooks leave the gradient as it is.
#pragma once

#include <ATen/core/TensorBase.h>

#include <cstdint>
#include <functional>
#include <limits>

namespace reprise::detail {

using TensorHook = std::function<at::TensorBase(const at::TensorBase&)>;

inline constexpr uint64_t kNoHookLimit = std::numeric_limits<uint64_t>::max();

/// The number of a hook that is being added. Hooks that a recompute adds to its own tensors always
/// run.
uint64_t new_hook_number();
/// Whether the hook with that number may run now, on this thread.
bool may_run_hook(uint64_t number);
/// `hook`, numbered.
TensorHook numbered_hook(TensorHook hook);

/// The number of the last hook that was added.
uint64_t last_hook();

/// In its scope, hooks after number `last` do not run on this thread.
class HookLimitGuard {
 public:
  explicit HookLimitGuard(uint64_t last);
  ~HookLimitGuard();
  HookLimitGuard(const HookLimitGuard&) = delete;
  HookLimitGuard& operator=(const HookLimitGuard&) = delete;

 private:
  uint64_t previous_;
};

}  // namespace reprise::detail
