// What policies need to know about an operator: its class, and what keeping its result would mean.
#pragma once

#include <reprise/policy.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>
#include <vector>

namespace reprise::detail {

struct OpInfo {
  OpClass op_class = OpClass::Other;
  bool writes_arguments = false;
  bool is_random = false;
  bool is_factory = false;    ///< takes no tensor
  bool returns_view = false;  ///< its result shares the first tensor argument's storage
  bool hides_view = false;    ///< so does its result, but its schema does not say it
};

/// Cached per thread.
const OpInfo& op_info(const c10::OperatorHandle& op);

/// Identity of an operator, cheap to compare.
inline const void* op_id(const c10::OperatorHandle& op) {
  return &op.schema();
}

/// All overloads that `name` means ("aten::mm" or "aten::mm.default"). Throws, with the nearest
/// names, if it is no operator.
std::vector<c10::OperatorHandle> find_operators(const std::string& name);

/// Whether autograd takes the operator apart before it could be recorded.
bool is_composite(const c10::OperatorHandle& op);

/// The arguments of a call whose stack is `stack`.
c10::ArrayRef<c10::IValue> arguments_of(const c10::OperatorHandle& op,
                                        const torch::jit::Stack& stack);

/// See Note [Numbering of operator calls]. Asked only in regions that begin under autocast; whether
/// it is on cannot be asked here, because autocast switches itself off while it casts.
bool is_cached_cast(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);

/// "aten::mm" or "aten::add.Tensor".
std::string display_name(const c10::OperatorHandle& op);

}  // namespace reprise::detail
