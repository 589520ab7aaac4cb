// Selective checkpointing: per operator, which results of a region are kept and which are
// recomputed.
//
// A policy decides once per operator call, in forward and below autograd: it sees aten::mm and
// aten::addmm, never the composite aten::linear that they come from. The recompute replays these
// decisions. In nested regions only the policy of the innermost region applies.
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
  Keep,       ///< kept in memory; the recompute returns it instead of running the operator
  Recompute,  ///< dropped; the recompute runs the operator again
  Offload,    ///< moved to host memory when the region's forward ends; otherwise like Keep
  Compress,   ///< kept in a smaller form: exact for bool, lossy (options.allow_lossy) for floats
};

/// The kind of work of an operator, so that a policy need not list every kernel of that kind.
enum class OpClass : uint8_t {
  Other,
  Matmul,     ///< mm, addmm, bmm, baddbmm and the like: expensive compared to their result's size
  Attention,  ///< fused scaled-dot-product attention of any backend
};

/// One operator call in a region's forward.
struct OpContext {
  std::string_view name;      ///< with namespace, e.g. "aten::mm"
  std::string_view overload;  ///< empty for the default overload
  OpClass op_class = OpClass::Other;
  size_t call_index = 0;   ///< number of earlier calls of this operator in this region
  size_t class_index = 0;  ///< number of earlier calls of this operator class in this region
  c10::ArrayRef<c10::IValue> arguments;
  /// The NamedRanges of the region around the call, e.g. "attention/scores"; empty outside.
  std::string_view range;
  bool writes_arguments = false;  ///< its result cannot be kept
  /// What the operator has returned, if Policy::reads_results(); otherwise empty.
  c10::ArrayRef<c10::IValue> results = {};
};

/// An operator for which a policy decided Keep, Offload or Compress at least once in a region, as
/// passed to Policy::verify. (Views and factory functions are run again even so.)
struct KeptOp {
  std::string_view name;
  std::string_view overload;
  OpClass op_class = OpClass::Other;
  size_t kept = 0;                  ///< number of such decisions
  std::vector<std::string> ranges;  ///< the NamedRanges that they were in, each once
};

/// Decides per operator call. Implementations must be immutable: regions and threads share them.
class REPRISE_API Policy {
 public:
  virtual ~Policy();
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;

  virtual Decision decide(const OpContext& op) const = 0;

  /// Whether to ask after the operator has run, with its results. The arguments are then as it has
  /// left them.
  virtual bool reads_results() const { return false; }

  /// Called at the end of a region's forward with what was kept. Should throw if the policy was
  /// meant to keep something that never ran, because a policy without effect is a mistake.
  virtual void verify(const std::vector<KeptOp>& kept) const;

  /// A short description for messages, e.g. "save_ops(aten::mm)".
  virtual std::string describe() const = 0;

 protected:
  Policy();
};

namespace policy {

/// Recomputes everything, like no policy.
REPRISE_API std::shared_ptr<const Policy> full();

/// Keeps the results of these operators. A name is an operator ("aten::mm", all overloads) or one
/// overload ("aten::mm.default", "aten::add.Tensor"). Throws for a name that is not an operator,
/// for a composite operator that autograd decomposes before its result can be kept, and for an
/// operator that writes its arguments.
REPRISE_API std::shared_ptr<const Policy> save_ops(std::vector<std::string> names);

/// Keeps the results of fused attention of any backend. A region without any is an error, for
/// example if attention falls back to the unfused math path.
REPRISE_API std::shared_ptr<const Policy> save_attention();

/// Keeps every `every`-th matrix product of a region, starting with the first.
REPRISE_API std::shared_ptr<const Policy> save_matmuls(size_t every = 1);

/// Keeps what is computed in the NamedRanges with these names, and in ranges inside them; "a/b"
/// names a range b inside a range a. Views, factories and operators that write an argument are run
/// again. A name of which a region has no range is an error when the region ends.
REPRISE_API std::shared_ptr<const Policy> save_named(std::vector<std::string> names);

/// Decides by a callback. It is called once per operator call in forward.
REPRISE_API std::shared_ptr<const Policy> from(std::function<Decision(const OpContext&)> decide,
                                               std::string description = "callback");

}  // namespace policy

/// Sets the class of an operator, for example of a fused operator. Names as in policy::save_ops.
REPRISE_API void register_op_class(const std::string& name, OpClass op_class);

/// Declares an operator of yours effectful: it logs, counts, sends or does something else that must
/// not happen twice. In regions it runs once, in forward; the recompute gets its results, which are
/// kept, without running it. Operators whose schema returns nothing and writes nothing are
/// effectful without a declaration. Names as in policy::save_ops. Throws for operators of LibTorch,
/// and for those that write an argument or return something other than tensors and plain values.
/// Call it before the regions run.
REPRISE_API void register_effectful_op(const std::string& name);

/// The class of an operator; OpClass::Other if it was never set.
REPRISE_API OpClass op_class(const std::string& name, const std::string& overload = "");

}  // namespace reprise
