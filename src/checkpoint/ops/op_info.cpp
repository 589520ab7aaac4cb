#include "checkpoint/ops/op_info.h"

#include <reprise/options.h>

#include <c10/util/flat_hash_map.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace reprise {
namespace detail {
namespace {

constexpr std::array<std::string_view, 17> kMatmuls{"aten::mm",
                                                    "aten::addmm",
                                                    "aten::bmm",
                                                    "aten::baddbmm",
                                                    "aten::addbmm",
                                                    "aten::mv",
                                                    "aten::addmv",
                                                    "aten::dot",
                                                    "aten::vdot",
                                                    "aten::_int_mm",
                                                    "aten::_scaled_mm",
                                                    "aten::_addmm_activation",
                                                    "reprise::adapted_linear",
                                                    "reprise::gated_linear",
                                                    "reprise::linear",
                                                    "reprise::linear_add",
                                                    "reprise::qkv_rope"};

/// Their results share the storage of the first argument, but the schema does not declare it.
constexpr std::array<std::string_view, 3> kHiddenViews{
    "aten::_unsafe_view", "aten::unsafe_split", "aten::unsafe_split_with_sizes"};

constexpr std::array<std::string_view, 9> kAttentions{
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::_scaled_dot_product_fused_attention_overrideable",
    "aten::_flash_attention_forward",
    "aten::_efficient_attention_forward",
    "aten::_cudnn_attention_forward",
    "reprise::sliced_attention"};

template <size_t N>
bool is_in_list(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Classes set by register_op_class, by operator identity.
struct DeclaredClasses {
  std::mutex mutex;
  std::unordered_map<const void*, OpClass> classes;
  // Incremented by every registration, so that per-thread caches are invalidated.
  std::atomic<uint64_t> generation{0};
};

DeclaredClasses& declared() {
  static DeclaredClasses instance;
  return instance;
}

OpClass classify(const c10::OperatorHandle& op) {
  {
    const std::scoped_lock lock(declared().mutex);
    const auto found = declared().classes.find(op_id(op));
    if (found != declared().classes.end()) {
      return found->second;
    }
  }
  const auto& name = op.schema().name();
  return is_in_list(kMatmuls, name)      ? OpClass::Matmul
         : is_in_list(kAttentions, name) ? OpClass::Attention
                                         : OpClass::Other;
}

OpInfo make_info(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  const auto mentions_tensor = [](const c10::Argument& argument) {
    return argument.type()->str().find("Tensor") != std::string::npos;
  };
  OpInfo info;
  info.op_class = classify(op);
  info.writes_arguments = schema.is_mutable();
  info.is_random = op.hasTag(at::Tag::nondeterministic_seeded);
  info.is_factory =
      std::none_of(schema.arguments().begin(), schema.arguments().end(), mentions_tensor);
  info.returns_view =
      std::any_of(schema.returns().begin(), schema.returns().end(), [](const auto& r) {
        return r.alias_info() != nullptr && !r.alias_info()->isWrite();
      });
  info.ties_version = schema.name() == "aten::_unsafe_view";
  info.hides_view = is_in_list(kHiddenViews, schema.name());
  return info;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) {
    row[j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

std::string nearest_operator(const std::string& name) {
  std::string best;
  size_t best_distance = name.size() / 2 + 1;
  const bool has_namespace = name.find("::") != std::string::npos;
  for (const auto& candidate : c10::Dispatcher::singleton().getAllOpNames()) {
    if (candidate.name.back() == '_') {
      continue;  // results of in-place operators cannot be kept
    }
    // A name without a namespace is compared without namespaces.
    const std::string_view whole = candidate.name;
    const size_t distance =
        edit_distance(name, has_namespace ? whole : whole.substr(whole.find("::") + 2));
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate.name;
    }
  }
  return best;
}

/// The end of the message about an operator that does not exist: similar names.
std::string advice_for(const std::string& packet) {
  std::vector<std::string> overloads;
  for (const auto& candidate : c10::Dispatcher::singleton().getAllOpNames()) {
    if (candidate.name == packet) {
      overloads.push_back(packet + "." +
                          (candidate.overload_name.empty() ? "default" : candidate.overload_name));
    }
  }
  if (overloads.empty()) {
    const auto nearest = nearest_operator(packet);
    return nearest.empty() ? "." : ". Did you mean \"" + nearest + "\"?";
  }
  std::sort(overloads.begin(), overloads.end());
  std::string list;
  for (const auto& overload : overloads) {
    list += (list.empty() ? "" : ", ") + overload;
  }
  return ". There are: " + list + ".";
}

}  // namespace

const OpInfo& op_info(const c10::OperatorHandle& op) {
  thread_local ska::flat_hash_map<const void*, OpInfo> cache;
  thread_local uint64_t generation = 0;
  if (const uint64_t now = declared().generation.load(std::memory_order_acquire);
      now != generation) {
    cache.clear();
    generation = now;
  }
  const auto found = cache.find(op_id(op));
  return found != cache.end() ? found->second
                              : cache.emplace(op_id(op), make_info(op)).first->second;
}

c10::ArrayRef<c10::IValue> arguments_of(const c10::OperatorHandle& op,
                                        const torch::jit::Stack& stack) {
  return c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - op.schema().arguments().size());
}

bool is_cached_cast(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  if (op.schema().name() != "aten::_to_copy" || !arguments[0].isTensor()) {
    return false;
  }
  const auto& source = arguments[0].toTensor();
  return source.is_leaf() && source.requires_grad();
}

std::string display_name(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  return schema.overload_name().empty() ? schema.name()
                                        : schema.name() + "." + schema.overload_name();
}

std::vector<c10::OperatorHandle> find_operators(const std::string& name) {
  const size_t dot = name.find('.');
  const std::string packet = name.substr(0, dot);
  std::optional<std::string> overload;
  if (dot != std::string::npos) {
    overload = name.substr(dot + 1) == "default" ? "" : name.substr(dot + 1);
  }
  auto& dispatcher = c10::Dispatcher::singleton();
  std::vector<c10::OperatorHandle> found;
  for (const auto& candidate : dispatcher.getAllOpNames()) {
    if (candidate.name == packet && (!overload || candidate.overload_name == *overload)) {
      if (const auto op = dispatcher.findOp(candidate); op && op->hasSchema()) {
        found.push_back(*op);
      }
    }
  }
  if (found.empty()) {
    throw CheckpointError(
        c10::str("[reprise] \"", name, "\" is not a known operator", advice_for(packet)));
  }
  return found;
}

bool is_composite(const c10::OperatorHandle& op) {
  using c10::DispatchKey;
  return op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) &&
         !op.hasKernelForDispatchKey(DispatchKey::CPU) &&
         !op.hasKernelForDispatchKey(DispatchKey::CUDA) &&
         !op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd);
}

}  // namespace detail

void register_op_class(const std::string& name, OpClass op_class) {
  const auto operators = detail::find_operators(name);
  const std::scoped_lock lock(detail::declared().mutex);
  for (const auto& op : operators) {
    detail::declared().classes[detail::op_id(op)] = op_class;
  }
  detail::declared().generation.fetch_add(1, std::memory_order_release);
}

OpClass op_class(const std::string& name, const std::string& overload) {
  return detail::op_info(
             detail::find_operators(overload.empty() ? name : name + "." + overload).front())
      .op_class;
}

}  // namespace reprise
