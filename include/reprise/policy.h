// Per-operator memory policies: which results of a region are kept, and which are computed again.
//
// A policy is asked once per operator call, in forward, below autograd: it sees aten::mm and
// aten::addmm, never the composite aten::linear that they come from. Backward repeats what forward
// decided and never asks again. The innermost region's policy alone applies to what runs inside it.
#pragma once

#include <reprise/export.h>

#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

/// What happens to the result of one operator call between forward and backward.
enum class Decision : uint8_t {
  Keep,       ///< stays in memory; replayed in backward instead of being computed again
  Recompute,  ///< dropped and computed again in backward
  Offload,    ///< moved to host memory when the region's forward ends; replayed like Keep
  Compress,   ///< kept in a smaller form: bool exactly; floating only with options.allow_lossy
};

/// What kind of work an operator does, so that a policy need not list every kernel of that kind.
enum class OpClass : uint8_t {
  Other,
  Matmul,     ///< mm, addmm, bmm, baddbmm and their like: cost grows faster than the result's size
  Attention,  ///< fused scaled-dot-product attention of any backend
};

/// One operator call of a region's forward, as a policy sees it.
struct OpContext {
  std::string_view name;      ///< with namespace, e.g. "aten::mm"
  std::string_view overload;  ///< empty for the default overload
  OpClass op_class = OpClass::Other;
  size_t call_index = 0;   ///< earlier calls of this operator in this region
  size_t class_index = 0;  ///< earlier calls of this operator class in this region
  c10::ArrayRef<c10::IValue> arguments;
};

/// An operator that a policy said Keep, Offload or Compress to at least once in a region, as
/// reported to Policy::verify. (Views and factories among them are made again all the same.)
struct KeptOp {
  std::string_view name;
  std::string_view overload;
  OpClass op_class = OpClass::Other;
  size_t kept = 0;  ///< such decisions
};

/// Decides per operator call. Implementations are immutable and may be shared by regions and
/// threads.
class REPRISE_API Policy {
 public:
  virtual ~Policy();
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;

  virtual Decision decide(const OpContext& op) const = 0;

  /// Called when a region's forward ends, with what was kept. Throws if the policy was meant to
  /// keep something that the region never ran: a policy without effect is an error.
  virtual void verify(const std::vector<KeptOp>& kept) const;

  /// One line for messages, e.g. "save_ops(aten::mm)".
  virtual std::string describe() const = 0;

 protected:
  Policy();
};

namespace policy {

/// Recompute everything: the same as no policy.
REPRISE_API std::shared_ptr<const Policy> full();

/// Keep the results of these operators. A name is an operator ("aten::mm", every overload) or one
/// overload ("aten::mm.default", "aten::add.Tensor"). Refused here: a name that is no operator, a
/// composite that autograd takes apart before it can be kept, an operator that writes its
/// arguments.
REPRISE_API std::shared_ptr<const Policy> save_ops(std::vector<std::string> names);

/// Keep the results of fused attention, whatever the backend. Attention that falls to the unfused
/// math path matches nothing, which is an error.
REPRISE_API std::shared_ptr<const Policy> save_attention();

/// Keep every `every`-th matrix product of a region, beginning with the first.
REPRISE_API std::shared_ptr<const Policy> save_matmuls(size_t every = 1);

/// Decide by a callback. It runs once per operator call in forward, so it may count and look at
/// shapes.
REPRISE_API std::shared_ptr<const Policy> from(std::function<Decision(const OpContext&)> decide,
                                               std::string description = "callback");

}  // namespace policy

/// Declares the class of an operator, so that fused operators count as what they are. Names as in
/// policy::save_ops.
REPRISE_API void register_op_class(const std::string& name, OpClass op_class);

/// The class of an operator by name and overload; OpClass::Other if nothing was declared.
REPRISE_API OpClass op_class(const std::string& name, const std::string& overload = "");

}  // namespace reprise
