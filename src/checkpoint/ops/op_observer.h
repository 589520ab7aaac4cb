// Observing operators below autograd: see Note [Two dispatch keys].
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace reprise::detail {

/// Intercepts every operator call on this thread, below autograd, in the scope of its guard. It has
/// to run the operator: redispatch to `below`.
class OpObserver {
 public:
  virtual void call(const c10::OperatorHandle& op,
                    c10::DispatchKeySet below,
                    torch::jit::Stack* stack) = 0;

 protected:
  ~OpObserver() = default;
};

/// In its scope, `observer` is the only observer. Null: there is none, not even that of an
/// enclosing region. A LiveTensorReport sees operators in any case. See Note [A backward call
/// inside a region]. Other dispatch keys may change meanwhile, as a recorded step begins under
/// autocast and ends after it.
class OpObserverGuard {
 public:
  explicit OpObserverGuard(OpObserver* observer);
  ~OpObserverGuard();
  /// Whether this thread has an observer.
  static bool has_observer();
  OpObserverGuard(const OpObserverGuard&) = delete;
  OpObserverGuard& operator=(const OpObserverGuard&) = delete;

 private:
  OpObserver* previous_;
  const bool was_included_;
};

/// Makes sure that observers see every operator, including those registered since the last call.
void observe_recorded_operators();

}  // namespace reprise::detail
