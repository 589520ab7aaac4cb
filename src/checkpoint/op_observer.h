// Where operators are seen below autograd: see Note [Two dispatch keys].
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace reprise::detail {

/// Sees every operator call on this thread, below autograd, while its guard lives.
class OpObserver {
 public:
  virtual void call(const c10::OperatorHandle& op,
                    c10::DispatchKeySet below,
                    torch::jit::Stack* stack) = 0;

 protected:
  ~OpObserver() = default;
};

/// `observer` alone observes; null: nobody does, not even one of an enclosing region. See Note [A
/// backward call inside a region].
class OpObserverGuard {
 public:
  explicit OpObserverGuard(OpObserver* observer);
  ~OpObserverGuard();
  OpObserverGuard(const OpObserverGuard&) = delete;
  OpObserverGuard& operator=(const OpObserverGuard&) = delete;

 private:
  OpObserver* previous_;
  int previous_graph_task_;
  c10::impl::ForceDispatchKeyGuard keys_;
};

}  // namespace reprise::detail
