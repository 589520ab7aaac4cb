#include "checkpoint/op_observer.h"

#include "checkpoint/engine_ops.h"

#include <torch/library.h>

#include <utility>

namespace reprise::detail {
namespace {

thread_local OpObserver* top_observer = nullptr;

void observe(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kRecordKey);
  // Operators that kernels call inside themselves belong to the call we see here.
  const c10::impl::ExcludeDispatchKeyGuard inner_calls(kRecordKey);
  if (top_observer == nullptr) {
    // The key came along to a thread of the autograd engine, our observer did not.
    op.redispatchBoxed(below, stack);
  } else {
    top_observer->call(op, below, stack);
  }
}

}  // namespace

OpObserverGuard::OpObserverGuard(OpObserver* observer)
    : previous_(std::exchange(top_observer, observer)) {
  auto keys = c10::impl::tls_local_dispatch_key_set();
  keys.included_ =
      observer == nullptr ? keys.included_.remove(kRecordKey) : keys.included_.add(kRecordKey);
  c10::impl::_force_tls_local_dispatch_key_set(keys);
}

OpObserverGuard::~OpObserverGuard() {
  top_observer = previous_;
}

}  // namespace reprise::detail

TORCH_LIBRARY_IMPL(_, Fake, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&reprise::detail::observe>());
}
