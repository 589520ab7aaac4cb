#include "plan/measure/roofline.h"

#include "plan/measure/op_tensors.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace reprise::planning {

namespace {

constexpr double kNanoseconds = 1e9;
constexpr double kBackwardProducts = 2.5;  // attention: five products in backward, two in forward
constexpr double kFlashOnHopper = 0.7;     // relative to cuDNN's attention there

double values_in(const at::Tensor& tensor) {
  return static_cast<double>(tensor.numel());
}

/// The arguments that determine how much a product computes: the rows, and the matrix with its
/// inner dimension.
struct ProductArguments {
  size_t left, right;
  int64_t inner;  // dimension of `right` that is summed over
};

const ProductArguments* product_arguments(const std::string& name) {
  static const std::unordered_map<std::string, ProductArguments> known = {
      {"aten::mm", {0, 1, 0}},
      {"aten::addmm", {1, 2, 0}},
      {"aten::addmm_", {1, 2, 0}},
      {"aten::bmm", {0, 1, 1}},
      {"aten::baddbmm", {1, 2, 1}},
      {"reprise::linear", {0, 1, 1}},
      {"reprise::linear_add", {0, 1, 1}},
      {"reprise::qkv_rope", {0, 1, 1}},
  };
  const auto found = known.find(name);
  return found == known.end() ? nullptr : &found->second;
}

/// The number of floating-point operations and their type: that of the rows, to which wider weights
/// are converted.
struct Arithmetic {
  double flops;
  at::ScalarType type;
};

std::optional<Arithmetic> product_arithmetic(const OpCallView& call) {
  const auto& name = call.schema.name();
  if (name == "reprise::product_") {
    const auto& out = call.arguments[0].toTensor();
    const auto& a = call.arguments[1].toTensor();
    const auto inner = static_cast<double>(a.size(call.arguments[3].toBool() ? 0 : 1));
    return Arithmetic{2 * values_in(out) * inner, a.scalar_type()};
  }
  const auto* product = product_arguments(name);
  if (product == nullptr) {
    return std::nullopt;
  }
  const auto& left = call.arguments[product->left].toTensor();
  const auto& right = call.arguments[product->right].toTensor();
  const bool is_batched = right.dim() == 3;
  const double matrices = is_batched ? static_cast<double>(right.size(0)) : 1;
  const auto inner = static_cast<double>(std::max<int64_t>(right.size(product->inner), 1));
  return Arithmetic{2 * values_in(left) * values_in(right) / inner / matrices, left.scalar_type()};
}

double bool_argument(const OpCallView& call, std::string_view name, double if_true) {
  const auto index = call.schema.argumentIndexWithName(name);
  return index && call.arguments[static_cast<size_t>(*index)].toBool() ? if_true : 1;
}

// Only fused attention: the math variant is timed by the products that it calls.
bool is_attention(const std::string& name) {
  return (name.starts_with("aten::_scaled_dot_product_") && !name.ends_with("_math")) ||
         name == "aten::_flash_attention_forward" || name == "aten::_flash_attention_backward" ||
         name == "reprise::sliced_attention" || name == "reprise::sliced_attention_backward";
}

double attention_ns(const OpCallView& call, const DeviceProfile& device) {
  const auto& name = call.schema.name();
  const bool is_backward = name.ends_with("_backward");
  const size_t first = is_backward ? 1 : 0;  // after the gradient
  const auto& query = call.arguments[first].toTensor();
  const auto& key = call.arguments[first + 1].toTensor();
  // Packed documents are (tokens, heads, d); a document is no longer than all tokens.
  const auto length = static_cast<double>(key.dim() == 3 ? key.size(0) : key.size(2));
  const double flops = 4 * values_in(query) * length * bool_argument(call, "is_causal", 0.5) *
                       (is_backward ? kBackwardProducts : 1);
  double efficiency =
      is_backward ? device.attention_backward_efficiency : device.attention_efficiency;
  efficiency *= length / (length + device.attention_half_length);
  if (device.generation >= kHopper && name.find("cudnn") == std::string::npos) {
    efficiency *= kFlashOnHopper;
  }
  return flops / (device.flops(query.scalar_type()) * efficiency) * kNanoseconds;
}

/// The bytes that an operator reads and writes.
struct Traffic {
  double bytes = 0;
  bool has_result = false;  // new, not a view
};

// Counts each value of an expanded tensor once.
double bytes_of(const at::Tensor& tensor) {
  return static_cast<double>(std::min(tensor.nbytes(), tensor.storage().nbytes()));
}

template <class Visit>
void for_each_tensor(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorList()) {
      visit(tensor);
    }
  }
}

// Operators that read of their first argument only what they return.
bool picks(const std::string& name) {
  return name == "aten::embedding" || name == "aten::index_select" || name == "aten::gather" ||
         name == "aten::nonzero_static";
}

Traffic traffic_of(const OpCallView& call) {
  Traffic traffic;
  std::unordered_set<const void*> seen;
  const bool skips_first = picks(call.schema.name());
  for (size_t i = skips_first ? 1 : 0; i < call.arguments.size(); ++i) {
    const auto* alias = call.schema.arguments()[i].alias_info();
    const double times = alias != nullptr && alias->isWrite() ? 2 : 1;
    for_each_tensor(call.arguments[i], [&](const at::Tensor& tensor) {
      if (has_bytes(tensor)) {
        seen.insert(tensor.storage().unsafeGetStorageImpl());
        traffic.bytes += times * bytes_of(tensor);
      }
    });
  }
  for (const auto& result : call.results) {
    for_each_tensor(result, [&](const at::Tensor& tensor) {
      if (has_bytes(tensor) && seen.insert(tensor.storage().unsafeGetStorageImpl()).second) {
        traffic.has_result = true;
        traffic.bytes += (skips_first ? 2 : 1) * bytes_of(tensor);
      }
    });
  }
  return traffic;
}

double bound(double bytes, const DeviceProfile& device) {
  return bytes / device.memory_speed * kNanoseconds;
}

bool is_factory(const OpCallView& call) {
  return call.schema.name().starts_with("aten::empty") || call.schema.name() == "aten::new_empty" ||
         call.schema.name() == "aten::new_empty_strided";
}

}  // namespace

std::optional<double> arithmetic_ns(const OpCallView& call, const DeviceProfile& device) {
  if (is_attention(call.schema.name())) {
    return std::max(attention_ns(call, device), bound(traffic_of(call).bytes, device)) +
           device.launch_ns;
  }
  const auto product = product_arithmetic(call);
  if (!product) {
    return std::nullopt;
  }
  const double speed = device.flops(product->type) * device.product_efficiency;
  double ns = product->flops / speed * kNanoseconds;
  ns = std::max(ns, bound(traffic_of(call).bytes, device));
  if (call.schema.name() == "reprise::qkv_rope") {  // rotated in place, after the product
    const auto& x = call.arguments[0].toTensor();
    const auto& weight = call.arguments[1].toTensor();
    const double values = values_in(x) * values_in(weight) / static_cast<double>(x.size(-1)) /
                          static_cast<double>(x.size(-1));
    ns += bound(2 * values * static_cast<double>(x.itemsize()), device);
    if (!call.arguments[9].toTensorList().empty()) {  // adapters read x, and add to the product
      ns += bound((values_in(x) + 2 * values) * static_cast<double>(x.itemsize()), device);
    }
  }
  return ns + device.launch_ns;
}

double memory_ns(const OpCallView& call, const DeviceProfile& device) {
  if (is_factory(call)) {
    return 0;
  }
  const Traffic traffic = traffic_of(call);
  return traffic.has_result || call.schema.is_mutable()
             ? bound(traffic.bytes, device) + device.launch_ns
             : 0;
}

}  // namespace reprise::planning
