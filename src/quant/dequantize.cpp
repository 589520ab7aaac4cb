#include "quant/dequantize.h"

#include "ops/operator.h"
#include "quant/tables.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <vector>

namespace reprise::quant {

namespace reference {

namespace {

// The float32 scale of every value, (count).
at::Tensor scale_of_values(const at::Tensor& scales,
                           const std::optional<at::Tensor>& nested_scales,
                           const std::optional<at::Tensor>& nested_map,
                           double offset,
                           int64_t block,
                           int64_t count) {
  auto floats = scales;
  if (nested_scales) {
    const auto of_scales =
        nested_scales->repeat_interleave(kNestedBlock).narrow(0, 0, scales.numel());
    floats = nested_map->index_select(0, scales.to(at::kLong)) * of_scales + offset;
  }
  return floats.repeat_interleave(block).narrow(0, 0, count);
}

}  // namespace

void dequantize_(at::Tensor& out,
                 const at::Tensor& packed,
                 const at::Tensor& scales,
                 const std::optional<at::Tensor>& nested_scales,
                 const std::optional<at::Tensor>& nested_map,
                 double offset,
                 int64_t format,
                 int64_t block) {
  const auto kind = static_cast<QuantFormat>(format);
  if (kind == QuantFormat::Int8) {
    out.copy_(packed * scales.unsqueeze(1) * kInt8Step);
    return;
  }
  const auto bytes = packed.flatten();
  const auto codes = at::stack({bytes.bitwise_right_shift(4), bytes.bitwise_and(0xF)}, 1).flatten();
  const auto& table = numbers_of(kind);
  const auto numbers =
      at::tensor(std::vector<float>(table.begin(), table.end()), at::kFloat).to(packed.device());
  const auto values =
      numbers.index_select(0, codes.narrow(0, 0, out.numel()).to(at::kLong)) *
      scale_of_values(scales, nested_scales, nested_map, offset, block, out.numel());
  out.copy_(values.view(out.sizes()));
}

}  // namespace reference

void dequantize_into(at::Tensor& out, const QuantizedWeight& weight) {
  TORCH_CHECK(out.dim() == 2 && out.size(0) == weight.out && out.size(1) == weight.in &&
                  out.is_contiguous() && at::isFloatingType(out.scalar_type()) &&
                  out.device() == weight.device(),
              "[dequantize] expected a contiguous matrix ",
              at::IntArrayRef({weight.out, weight.in}),
              " of floating point on ",
              weight.device(),
              ", got ",
              c10::toString(out.scalar_type()),
              " ",
              out.sizes(),
              " on ",
              out.device());
  static const auto op =
      ops::find_operator<decltype(reference::dequantize_)>("reprise::dequantize_");
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  op.call(out,
          weight.packed,
          weight.scales,
          ops::as_optional(weight.nested_scales),
          ops::as_optional(weight.nested_map),
          weight.offset,
          static_cast<int64_t>(weight.scheme.format),
          weight.scheme.block);
}

namespace {

// Our kernels allocate nothing.
void plan_dequantize_(at::Tensor&,
                      const at::Tensor&,
                      const at::Tensor&,
                      const std::optional<at::Tensor>&,
                      const std::optional<at::Tensor>&,
                      double,
                      int64_t,
                      int64_t) {}

}  // namespace

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.def(
      "dequantize_(Tensor(a!) out, Tensor packed, Tensor scales, Tensor? nested_scales, Tensor? "
      "nested_map, float offset, int format, int block) -> ()");
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("dequantize_", reference::dequantize_);
}

TORCH_LIBRARY_IMPL(reprise, Meta, library) {
  library.impl("dequantize_", plan_dequantize_);
}

}  // namespace reprise::quant
