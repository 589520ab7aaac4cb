#include "checkpoint/ops/op_observer.h"

#include "checkpoint/hot_thread_local.h"
#include "checkpoint/ops/engine_ops.h"

#include <torch/library.h>

#include <utility>

namespace reprise::detail {
namespace {

REPRISE_HOT_THREAD_LOCAL OpObserver* top_observer = nullptr;

void observe(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kRecordKey);
  // Operators called inside a kernel belong to the call observed here.
  const c10::impl::ExcludeDispatchKeyGuard inner_calls(kRecordKey);
  if (top_observer == nullptr) {
    // Another thread, which inherits the key.
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

bool OpObserverGuard::has_observer() {
  return top_observer != nullptr;
}

}  // namespace reprise::detail

TORCH_LIBRARY_IMPL(_, Fake, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&reprise::detail::observe>());
}
