// Properties of operators that matter for policies: the class, and whether a result can be kept.
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
  bool returns_view = false;  ///< the result shares the storage of the first tensor argument
  bool hides_view = false;    ///< the same, but the schema does not declare it
  bool ties_version = false;  ///< its result takes the place of its argument (_unsafe_view)
};

/// Cached per thread.
const OpInfo& op_info(const c10::OperatorHandle& op);

/// The identity of an operator, cheap to compare.
inline const void* op_id(const c10::OperatorHandle& op) {
  return &op.schema();
}

/// All overloads that match `name` ("aten::mm" or "aten::mm.default"). Throws, with similar names,
/// if there are none.
std::vector<c10::OperatorHandle> find_operators(const std::string& name);

/// Whether autograd decomposes the operator, so that its result cannot be recorded.
bool is_composite(const c10::OperatorHandle& op);

/// The arguments of a call whose stack is `stack`.
c10::ArrayRef<c10::IValue> arguments_of(const c10::OperatorHandle& op,
                                        const torch::jit::Stack& stack);

/// Whether autocast may cache this cast: see Note [Numbering of operator calls]. Only for regions
/// that run under autocast, which cannot be checked here because autocast turns itself off while it
/// casts.
bool is_cached_cast(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);

/// "aten::mm" or "aten::add.Tensor".
std::string display_name(const c10::OperatorHandle& op);

}  // namespace reprise::detail
