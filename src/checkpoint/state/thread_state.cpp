#include "checkpoint/state/thread_state.h"

#include "checkpoint/ops/engine_ops.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace reprise::detail {

// Without the flags of exceptions that have occurred.
#if defined(__SSE2__)
constexpr uint32_t kFloatModeBits = 0xFFC0;

FloatMode::FloatMode() : bits_(_mm_getcsr() & kFloatModeBits) {}

void FloatMode::apply() const {
  _mm_setcsr((_mm_getcsr() & ~kFloatModeBits) | static_cast<uint32_t>(bits_));
}
#elif defined(__aarch64__)
FloatMode::FloatMode() {
  asm volatile("mrs %0, fpcr" : "=r"(bits_));  // NOLINT(hicpp-no-assembler): no intrinsic has it
}

void FloatMode::apply() const {
  asm volatile("msr fpcr, %0" : : "r"(bits_));  // NOLINT(hicpp-no-assembler)
}
#else
FloatMode::FloatMode() : bits_(static_cast<uint64_t>(std::fegetround())) {}

void FloatMode::apply() const {
  std::fesetround(static_cast<int>(bits_));
}
#endif

namespace {

using c10::DispatchKey;
/// Modes of Python (TorchDispatchMode and the like): the key of a mode is of no use without its
/// stack, which is the caller's.
constexpr c10::DispatchKeySet kModeKeys({DispatchKey::Python,
                                         DispatchKey::PythonTLSSnapshot,
                                         DispatchKey::PythonDispatcher,
                                         DispatchKey::PreDispatch});

c10::impl::LocalDispatchKeySet with_modes_of(c10::impl::LocalDispatchKeySet keys,
                                             const c10::impl::LocalDispatchKeySet& modes) {
  keys.included_ = (keys.included_ - kModeKeys) | (modes.included_ & kModeKeys);
  keys.excluded_ = (keys.excluded_ - kModeKeys) | (modes.excluded_ & kModeKeys);
  return keys;
}

}  // namespace

ThreadState::ThreadState() : dispatch_keys_(c10::impl::tls_local_dispatch_key_set()) {
  dispatch_keys_.included_ = dispatch_keys_.included_ - kObserverKeys;
  dispatch_keys_.excluded_ = dispatch_keys_.excluded_ - kObserverKeys;
  for (size_t i = 0; i < kAutocastDevices.size(); ++i) {
    const bool enabled = at::autocast::is_autocast_enabled(kAutocastDevices[i]);
    has_autocast_ = has_autocast_ || enabled;
    autocast_[i] = {enabled, at::autocast::get_autocast_dtype(kAutocastDevices[i])};
  }
  autocast_cache_ = at::autocast::is_autocast_cache_enabled();
  static const bool has_cuda = at::globalContext().hasCUDA();
  if (has_cuda) {
    device_ = c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA)->getDevice();
  }
}

ThreadStateGuard::ThreadStateGuard(const ThreadState& state)
    : changes_autocast_(state.has_autocast_),
      keys_(with_modes_of(state.dispatch_keys_, callers_.dispatch_keys_)),
      device_(state.device_) {
  state.float_mode_.apply();
  if (changes_autocast_) {
    at::autocast::increment_nesting();
    apply_autocast(state);
  }
}

ThreadStateGuard::~ThreadStateGuard() {
  callers_.float_mode_.apply();
  if (changes_autocast_) {
    // Like the end of an autocast scope: casts made for the recompute must not outlive it.
    if (at::autocast::decrement_nesting() == 0) {
      at::autocast::clear_cache();
    }
    apply_autocast(callers_);
  }
}

void ThreadStateGuard::apply_autocast(const ThreadState& state) const {
  for (size_t i = 0; i < ThreadState::kAutocastDevices.size(); ++i) {
    at::autocast::set_autocast_enabled(ThreadState::kAutocastDevices[i],
                                       state.autocast_[i].enabled);
    at::autocast::set_autocast_dtype(ThreadState::kAutocastDevices[i], state.autocast_[i].dtype);
  }
  at::autocast::set_autocast_cache_enabled(state.autocast_cache_);
}

}  // namespace reprise::detail
