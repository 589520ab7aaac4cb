#include "checkpoint/state/hook_order.h"

#include <reprise/checkpoint.h>

#include <atomic>
#include <utility>

namespace reprise::detail {
namespace {

std::atomic<uint64_t> hooks_added{0};
thread_local uint64_t hook_limit = kNoHookLimit;

}  // namespace

uint64_t new_hook_number() {
  return is_recomputing() ? 0 : ++hooks_added;
}

bool may_run_hook(uint64_t number) {
  return number <= hook_limit;
}

TensorHook numbered_hook(TensorHook hook) {
  return [number = new_hook_number(), hook = std::move(hook)](const at::TensorBase& gradient) {
    return may_run_hook(number) ? hook(gradient) : at::TensorBase();
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
