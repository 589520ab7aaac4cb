#include "checkpoint/ops/op_effects.h"

#include "checkpoint/ops/op_info.h"

#include <reprise/options.h>

#include <ATen/core/jit_type.h>
#include <c10/util/flat_hash_map.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_set>

namespace reprise::detail {
namespace {

/// Operators that write arguments without declaring it in their schema.
constexpr std::array<std::string_view, 6> kUnmarkedWriters{
    "aten::native_batch_norm",
    "aten::cudnn_batch_norm",
    "aten::miopen_batch_norm",
    "aten::batch_norm_gather_stats",
    "aten::batch_norm_gather_stats_with_counts",
    "aten::batch_norm_update_stats"};

/// In-place operators on sizes that also touch memory.
constexpr std::array<std::string_view, 3> kResizers{
    "aten::resize_", "aten::resize_as_", "aten::resize_as_sparse_"};

template <size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// What these return nothing for is part of computing, or of communicating, and happens again:
/// assertions, the ends of profiled ranges, barriers.
constexpr std::array<std::string_view, 22> kNamespacesOfLibTorch{"_c10d_functional",
                                                                 "_c10d_functional_autograd",
                                                                 "_dtensor",
                                                                 "_quantized",
                                                                 "_test",
                                                                 "aten",
                                                                 "c10d",
                                                                 "c10d_functional",
                                                                 "fsdp",
                                                                 "inductor",
                                                                 "inductor_prims",
                                                                 "mkl",
                                                                 "mkldnn",
                                                                 "mkldnn_prepacked",
                                                                 "onednn",
                                                                 "prepacked",
                                                                 "prim",
                                                                 "profiler",
                                                                 "quantized",
                                                                 "sparse",
                                                                 "static_runtime",
                                                                 "symm_mem"};

bool is_of_libtorch(const c10::OperatorHandle& op) {
  const std::string_view name = op.schema().name();
  const auto space = name.substr(0, name.find(':'));
  return contains(kNamespacesOfLibTorch, space) || space == "quantization" || space == "reprise";
}

/// Operators declared by register_effectful_op, by identity.
struct Declared {
  std::mutex mutex;
  std::unordered_set<const void*> ops;
  std::atomic<uint64_t> generation{0};
};

Declared& declared_effectful() {
  static Declared instance;
  return instance;
}

bool is_declared(const c10::OperatorHandle& op) {
  const std::scoped_lock lock(declared_effectful().mutex);
  return declared_effectful().ops.contains(op_id(op));
}

/// LibTorch inferred the schema from a C++ function, which does not tell what it writes.
bool is_inferred(const c10::FunctionSchema& schema) {
  return std::any_of(
      schema.arguments().begin(), schema.arguments().end(), [](const c10::Argument& argument) {
        return argument.name() == "_0" &&
               argument.type()->str().find("Tensor") != std::string::npos;
      });
}

/// Tensors, lists of tensors, and plain values.
bool can_be_kept(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
    case c10::TypeKind::NumberType:
    case c10::TypeKind::IntType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::ComplexType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::StringType:
    case c10::TypeKind::DeviceObjType:
    case c10::TypeKind::SymIntType:
      return true;
    case c10::TypeKind::ListType: {
      const auto& element = *type.containedType(0);
      return element.kind() != c10::TypeKind::ListType &&
             element.kind() != c10::TypeKind::OptionalType && can_be_kept(element);
    }
    case c10::TypeKind::OptionalType:
      return can_be_kept(*type.containedType(0));
    default:
      return false;
  }
}

bool is_view(const c10::FunctionSchema& schema) {
  return std::any_of(schema.returns().begin(), schema.returns().end(), [](const auto& result) {
    return result.alias_info() != nullptr && !result.alias_info()->isWrite();
  });
}

/// Whether a composite may do its work itself.
bool may_compute(const c10::OperatorHandle& op) {
  return !std::string_view(op.schema().name()).starts_with("aten::") ||
         op.hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
         op.hasKernelForDispatchKey(c10::DispatchKey::CUDA);
}

bool mentions(const c10::Argument& argument, const char* type) {
  return argument.type()->str().find(type) != std::string::npos;
}

}  // namespace

OpEffects::OpEffects(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  const bool is_unmarked = contains(kUnmarkedWriters, schema.name());
  const auto& arguments = schema.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& name = arguments[i].name();
    const bool is_marked =
        arguments[i].alias_info() != nullptr && arguments[i].alias_info()->isWrite();
    if (is_marked || (is_unmarked && (name == "running_mean" || name == "running_var"))) {
      written.push_back(i);
    } else if (mentions(arguments[i], "Tensor")) {
      read.push_back(i);
    } else if (mentions(arguments[i], "Generator")) {
      generator = i;
    }
  }
  const bool is_resizer = contains(kResizers, schema.name());
  sets = !written.empty() && (is_resizer || op.hasTag(at::Tag::inplace_view) ||
                              schema.name() == "aten::set_data" || schema.name() == "aten::set_");
  writes = !written.empty() && (!sets || is_resizer);
  const bool is_composite = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  // The operators that a composite calls draw.
  draws = generator.has_value() || (op.hasTag(at::Tag::nondeterministic_seeded) && !is_composite);
  const bool returns_nothing = schema.returns().empty() && !schema.is_varret();
  const bool only_has_effect =
      returns_nothing && !schema.is_mutable() && !is_unmarked && !is_of_libtorch(op);
  runs_once = is_declared(op) || schema.name() == "aten::_print" ||
              (only_has_effect && !is_inferred(schema));
  is_unclear = only_has_effect && !runs_once;
  if (is_composite && !is_view(schema) && may_compute(op)) {
    taken = read;
  }
  if (is_composite || is_view(schema)) {
    read.clear();  // the operators that it calls read; a view is read where it is used
  }
}

void declare_effectful(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  const auto refuse = [&op](const std::string& why) {
    throw CheckpointError(
        c10::str("[reprise] ", display_name(op), " cannot be an effectful operator: ", why));
  };
  if (is_of_libtorch(op)) {
    refuse(
        "it is one of LibTorch's or Reprise's, which have no effects that a region does not undo.");
  }
  if (schema.is_mutable() || is_view(schema)) {
    refuse(
        "it writes or returns its arguments, and regions undo writes. Move the effect into an "
        "operator of its own.");
  }
  for (const auto& result : schema.returns()) {
    if (!can_be_kept(*result.type())) {
      refuse(c10::str("it returns ",
                      result.type()->str(),
                      ". Only tensors, lists of tensors and plain values can be kept."));
    }
  }
  const std::scoped_lock lock(declared_effectful().mutex);
  declared_effectful().ops.insert(op_id(op));
  declared_effectful().generation.fetch_add(1, std::memory_order_release);
}

const OpEffects& op_effects(const c10::OperatorHandle& op) {
  thread_local ska::flat_hash_map<const void*, std::unique_ptr<OpEffects>> cache;
  thread_local uint64_t generation = 0;
  if (const uint64_t now = declared_effectful().generation.load(std::memory_order_acquire);
      now != generation) {
    cache.clear();
    generation = now;
  }
  auto& entry = cache[&op.schema()];
  if (!entry) {
    entry = std::make_unique<OpEffects>(op);
  }
  return *entry;
}

}  // namespace reprise::detail

void reprise::register_effectful_op(const std::string& name) {
  const auto operators = detail::find_operators(name);
  for (const auto& op : operators) {
    detail::declare_effectful(op);
  }
  detail::observe_more_effects();
}
