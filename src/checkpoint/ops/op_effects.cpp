#include "checkpoint/ops/op_effects.h"

#include <c10/util/flat_hash_map.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

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
  if (is_composite && !is_view(schema) && may_compute(op)) {
    taken = read;
  }
  if (is_composite || is_view(schema)) {
    read.clear();  // the operators that it calls read; a view is read where it is used
  }
}

const OpEffects& op_effects(const c10::OperatorHandle& op) {
  thread_local ska::flat_hash_map<const void*, std::unique_ptr<OpEffects>> cache;
  auto& entry = cache[&op.schema()];
  if (!entry) {
    entry = std::make_unique<OpEffects>(op);
  }
  return *entry;
}

}  // namespace reprise::detail
