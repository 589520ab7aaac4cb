// Our own tensor operations must not be seen by our own interception.
#pragma once

#include <ATen/core/grad_mode.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace reprise::detail {

/// Note [Two dispatch keys]
/// Operators are observed through two dispatch keys that LibTorch reserves for libraries outside of
/// it and that nothing else uses. A thread sees an observer only while the key is included:
/// - DeferredInit lies above autograd. Only operators that write an argument have a kernel there
///   (write_dispatch.cpp); all others fall through at no cost, so every region can afford it.
/// - Fake lies below autograd. A fallback sees every operator (op_observer.cpp), which costs about
/// a
///   microsecond each: only regions with a policy include it.
inline constexpr c10::DispatchKey kWriteKey = c10::DispatchKey::DeferredInit;
inline constexpr c10::DispatchKey kRecordKey = c10::DispatchKey::Fake;
inline constexpr c10::DispatchKeySet kObserverKeys = c10::DispatchKeySet({kWriteKey, kRecordKey});

/// In its scope tensor operations are neither observed nor differentiated.
class EngineOpsGuard {
 public:
  EngineOpsGuard() : unobserved_(kObserverKeys) {}

 private:
  c10::impl::ExcludeDispatchKeyGuard unobserved_;
  at::NoGradGuard no_grad_;
};

}  // namespace reprise::detail
