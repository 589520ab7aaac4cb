// The dispatch keys through which operators are observed, and a guard that hides the engine's own
// tensor operations from them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace reprise::detail {

/// Note [Two dispatch keys]
/// Operators are observed through two dispatch keys that LibTorch reserves for external libraries
/// and for which it registers nothing itself (tests/checkpoint/dispatch_keys_test.cpp). They take
/// effect on a thread only while the key is included:
/// - DeferredInit is above autograd. Operators that write an argument, draw or read tensors have a
///   kernel there, in every region: the common ones a typed one (read_dispatch.cpp), at some 30 ns,
///   the others a boxed one (write_dispatch.cpp).
/// - Fake is below autograd. Its fallback sees every operator (op_observer.cpp), at about a
///   microsecond each, so only regions with a policy include it.
///
/// Note [Fake tensors]
/// Since 2.14 LibTorch has fake tensors in C++: they have sizes and no content, and carry the key
/// Fake beside that of their device. Its versions up to 2.15 have no kernel for them, so that every
/// operator on one fails. Our fallback is no such kernel: calls with a fake tensor, and calls on
/// threads where others included the key, go on as if it were not there. Where another library has
/// a fallback or kernels for the key, ours are registered for each operator and pass such calls on
/// to those (RecordKernels). Regions refuse fake tensors by name.
inline constexpr c10::DispatchKey kWriteKey = c10::DispatchKey::DeferredInit;
inline constexpr c10::DispatchKey kRecordKey = c10::DispatchKey::Fake;
inline constexpr c10::DispatchKeySet kObserverKeys = c10::DispatchKeySet({kWriteKey, kRecordKey});

/// See Note [Fake tensors].
inline bool is_fake(const at::Tensor& tensor) {
  return tensor.defined() && tensor.key_set().has(kRecordKey);
}

/// In its scope, tensor operations are neither observed nor differentiated.
class EngineOpsGuard {
 public:
  EngineOpsGuard() : unobserved_(kObserverKeys) {}

 private:
  c10::impl::ExcludeDispatchKeyGuard unobserved_;
  at::NoGradGuard no_grad_;
};

}  // namespace reprise::detail
