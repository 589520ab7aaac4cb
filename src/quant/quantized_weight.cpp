#include "quant/quantized_weight.h"

#include "quant/dequantize.h"
#include "quant/tables.h"

#include <ATen/ATen.h>

namespace reprise::quant {

namespace {

void check_tensor(const at::Tensor& tensor,
                  at::ScalarType type,
                  at::IntArrayRef sizes,
                  const std::string& name) {
  TORCH_CHECK(tensor.defined() && tensor.scalar_type() == type && tensor.sizes() == sizes &&
                  tensor.is_contiguous(),
              "[quant] ",
              name,
              ": expected ",
              c10::toString(type),
              " ",
              sizes,
              ", found ",
              tensor.defined() ? c10::toString(tensor.scalar_type()) : "nothing",
              " ",
              tensor.defined() ? c10::str(tensor.sizes()) : "");
}

int64_t bytes_of(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0;
}

}  // namespace

int64_t QuantizedWeight::bytes() const {
  return bytes_of(packed) + bytes_of(scales) + bytes_of(nested_scales) + bytes_of(nested_map);
}

QuantizedWeight QuantizedWeight::to(at::Device device, bool non_blocking) const {
  const auto moved = [&](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.to(device, tensor.scalar_type(), non_blocking) : tensor;
  };
  QuantizedWeight result = *this;
  result.packed = moved(packed);
  result.scales = moved(scales);
  result.nested_scales = moved(nested_scales);
  result.nested_map = moved(nested_map);
  return result;
}

void check(const QuantizedWeight& weight, const std::string& name) {
  check_scheme(weight.scheme);
  if (weight.scheme.format == QuantFormat::Int8) {
    check_tensor(weight.packed, at::kChar, {weight.out, weight.in}, name);
    check_tensor(weight.scales, at::kFloat, {weight.out}, name + ", its scales (SCB)");
    return;
  }
  const int64_t blocks = weight.blocks();
  check_tensor(weight.packed, at::kByte, {(weight.out * weight.in + 1) / 2, 1}, name);
  check_tensor(
      weight.scales, weight.is_nested() ? at::kByte : at::kFloat, {blocks}, name + ".absmax");
  TORCH_CHECK(weight.is_nested() == weight.scheme.double_quant &&
                  weight.is_nested() == weight.nested_map.defined(),
              "[quant] ",
              name,
              ": expected nested_absmax and nested_quant_map with double quantisation, and neither "
              "without it.");
  if (weight.is_nested()) {
    check_tensor(weight.nested_scales,
                 at::kFloat,
                 {(blocks + kNestedBlock - 1) / kNestedBlock},
                 name + ".nested_absmax");
    check_tensor(weight.nested_map, at::kFloat, {kCodes8}, name + ".nested_quant_map");
  }
}

at::Tensor dequantize(const QuantizedWeight& weight, at::ScalarType type) {
  auto matrix = at::empty({weight.out, weight.in}, weight.packed.options().dtype(type));
  dequantize_into(matrix, weight);
  return matrix;
}

}  // namespace reprise::quant
