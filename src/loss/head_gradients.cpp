#include "loss/head_gradients.h"

#include <ATen/ATen.h>

namespace reprise {

HeadNeeds needs_of(const torch::autograd::AutogradContext& context, bool has_bias) {
  return {.hidden = context.needs_input_grad(0),
          .weight = context.needs_input_grad(1),
          .bias = has_bias && context.needs_input_grad(2)};
}

HeadGradients::HeadGradients(const HeadPlan& plan,
                             const HeadNeeds& needs,
                             const at::Tensor& rows,
                             const at::Tensor& weight_of_head)
    : plan_(plan) {
  const auto sums = weight_of_head.options().dtype(plan.statistics).requires_grad(false);
  if (needs.hidden) {
    hidden = at::empty_like(rows, at::MemoryFormat::Contiguous);
  }
  if (needs.weight) {
    weight = at::zeros(weight_of_head.sizes(), sums);
  }
  if (needs.bias) {
    bias = at::zeros({weight_of_head.size(0)}, sums);
  }
}

void HeadGradients::add(int64_t start,
                        const at::Tensor& rows,
                        const at::Tensor& slopes,
                        ChunkLogits& logits) {
  // Only CUDA multiplies narrow types into a wide sum. Elsewhere the sum takes wide operands.
  const bool sums_narrow = plan_.product != plan_.statistics && rows.is_cuda();
  at::Tensor operand;
  if (hidden.defined() || (weight.defined() && sums_narrow)) {
    operand = logits.as_operand(slopes);
  }
  if (hidden.defined()) {
    auto out = hidden.narrow(0, start, rows.size(0));
    if (out.scalar_type() == plan_.product) {
      at::mm_out(out, operand, logits.weight());
    } else {
      out.copy_(at::mm(operand, logits.weight()));
    }
  }
  if (weight.defined() && sums_narrow) {
    at::addmm_out(weight, weight, operand.t(), rows, plan_.statistics);
  } else if (weight.defined()) {
    weight.addmm_(slopes.t(), rows.to(plan_.statistics));
  }
  if (bias.defined()) {
    bias.add_(slopes.sum(0));
  }
}

at::Tensor as_gradient(const at::Tensor& sum, at::ScalarType type, const at::Tensor& factor) {
  if (!sum.defined()) {
    return {};
  }
  if (!factor.defined()) {
    return sum.to(type);
  }
  if (type == sum.scalar_type()) {
    return sum * factor;
  }
  constexpr int64_t kRows = 4096;  // the product in the sum's type is never whole
  auto gradient = at::empty(sum.sizes(), sum.options().dtype(type));
  for (int64_t start = 0; start < sum.size(0); start += kRows) {
    const auto end = std::min(start + kRows, sum.size(0));
    gradient.slice(0, start, end).copy_(sum.slice(0, start, end) * factor);
  }
  return gradient;
}

}  // namespace reprise
