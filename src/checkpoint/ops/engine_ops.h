// The dispatch keys through which operators are observed, and a guard that hides the engine's own
// tensor operations from them.
#pragma once

#include <ATen/core/grad_mode.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace reprise::detail {

/// Note [Two dispatch keys]
/// Operators are observed through two dispatch keys that LibTorch reserves for external libraries
/// and that nothing else uses. They take effect on a thread only while the key is included:
/// - DeferredInit is above autograd. Operators that write an argument, draw or read tensors have a
///   kernel there, in every region: the common ones a typed one (read_dispatch.cpp), at some 30 ns,
///   the others a boxed one (write_dispatch.cpp).
/// - Fake is below autograd. Its fallback sees every operator (op_observer.cpp), at about a
///   microsecond each, so only regions with a policy include it.
inline constexpr c10::DispatchKey kWriteKey = c10::DispatchKey::DeferredInit;
inline constexpr c10::DispatchKey kRecordKey = c10::DispatchKey::Fake;
inline constexpr c10::DispatchKeySet kObserverKeys = c10::DispatchKeySet({kWriteKey, kRecordKey});

/// In its scope, tensor operations are neither observed nor differentiated.
class EngineOpsGuard {
 public:
  EngineOpsGuard() : unobserved_(kObserverKeys) {}

 private:
  c10::impl::ExcludeDispatchKeyGuard unobserved_;
  at::NoGradGuard no_grad_;
};

}  // namespace reprise::detail
