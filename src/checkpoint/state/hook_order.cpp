#include "checkpoint/state/hook_order.h"

#include <reprise/checkpoint.h>

#include <atomic>
#include <utility>

namespace reprise::detail {
namespace {

std::atomic<uint64_t> hooks_added{0};
thread_local uint64_t hook_limit = kNoHookLimit;

}  // namespace

TensorHook numbered_hook(TensorHook hook) {
  const uint64_t number = is_recomputing() ? 0 : ++hooks_added;
  return [number, hook = std::move(hook)](const at::TensorBase& gradient) {
    return number <= hook_limit ? hook(gradient) : at::TensorBase();
  };
}

uint64_t last_hook() {
  return hooks_added.load();
}

HookLimitGuard::HookLimitGuard(uint64_t last) : previous_(std::exchange(hook_limit, last)) {}

HookLimitGuard::~HookLimitGuard() {
  hook_limit = previous_;
}

}  // namespace reprise::detail
