#include "loss/head/head_gradients.h"

#include "ops/linear/matmul.h"
#include "ops/scale.h"

#include "memory/planned_device.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/graph_task.h>

namespace reprise {

HeadNeeds needs_of(const at::Tensor& hidden, const LinearHead& head) {
  const auto is_needed = [](const at::Tensor& tensor) {
    return at::GradMode::is_enabled() && tensor.defined() && tensor.requires_grad();
  };
  return {
      .hidden = is_needed(hidden), .weight = is_needed(head.weight), .bias = is_needed(head.bias)};
}

HeadNeeds needs_of(const torch::autograd::AutogradContext& context, bool has_bias) {
  return {.hidden = context.needs_input_grad(0),
          .weight = context.needs_input_grad(1),
          .bias = has_bias && context.needs_input_grad(2)};
}

HeadGradients::HeadGradients(const HeadPlan& plan,
                             const HeadNeeds& needs,
                             const at::Tensor& rows,
                             const at::Tensor& weight_of_head)
    : plan_(plan), is_cuda_(memory::is_for_cuda(rows.device())) {
  const auto sums = weight_of_head.options().dtype(plan.statistics).requires_grad(false);
  if (needs.hidden) {
    hidden = at::empty_like(rows, at::MemoryFormat::Contiguous);
  }
  if (needs.weight) {
    // Overwritten by the first chunk of narrow products.
    weight = sums_narrow() && rows.size(0) > 0 ? at::empty(weight_of_head.sizes(), sums)
                                               : at::zeros(weight_of_head.sizes(), sums);
  }
  if (needs.bias) {
    bias = at::zeros({weight_of_head.size(0)}, sums);
  }
}

void HeadGradients::add(int64_t start,
                        const at::Tensor& rows,
                        const at::Tensor& grad_logits,
                        ChunkLogits& logits) {
  logits.to_products(grad_logits);
  at::Tensor operand;
  if (hidden.defined() || (weight.defined() && sums_narrow())) {
    operand = logits.as_operand(grad_logits);
  }
  if (hidden.defined()) {
    auto out = hidden.narrow(0, start, rows.size(0));
    if (out.scalar_type() == plan_.product) {
      ops::matmul_into(out, operand, logits.weight());
    } else {
      out.copy_(at::mm(operand, logits.weight()));
    }
  }
  if (weight.defined() && sums_narrow() && start == 0) {
    ops::matmul_into(weight, operand, rows, {.a = true});
  } else if (weight.defined() && sums_narrow()) {
    ops::add_matmul(weight, operand, rows, {.a = true});
  } else if (weight.defined()) {
    weight.addmm_(grad_logits.t(), rows.to(plan_.statistics));
  }
  if (bias.defined()) {
    bias.add_(grad_logits.sum({0}, /*keepdim=*/false, plan_.statistics));
  }
}

at::Tensor as_gradient(const at::Tensor& sum, at::ScalarType type) {
  return sum.defined() ? sum.to(type) : sum;
}

namespace {

// Note [Scaling kept gradients in place]
// The gradient of a head is often the largest tensor of a step, so it is scaled in place. Nobody
// else refers to it, and the engine frees it after this node, unless the caller retains the graph:
// then a later backward must find it unchanged. Dividing by the factor again would not restore the
// same bits.
at::Tensor scaled(at::Tensor sum, at::ScalarType type, const at::Tensor& factor) {
  if (!sum.defined()) {
    return {};
  }
  const bool is_ours =
      type == sum.scalar_type() && !torch::autograd::get_current_graph_task_keep_graph();
  auto gradient = is_ours ? sum : at::empty(sum.sizes(), sum.options().dtype(type));
  ops::scale_into(gradient, sum, factor);
  return gradient;
}

int64_t number_of(at::ScalarType type) {
  return static_cast<int64_t>(type);
}

}  // namespace

void keep_gradients(torch::autograd::AutogradContext& context,
                    const HeadGradients& gradients,
                    const at::Tensor& weight,
                    const std::optional<at::Tensor>& bias) {
  context.saved_data["weight_type"] = number_of(weight.scalar_type());
  context.saved_data["bias_type"] = number_of(bias ? bias->scalar_type() : weight.scalar_type());
  context.save_for_backward({gradients.hidden, gradients.weight, gradients.bias});
}

torch::autograd::variable_list kept_gradients(torch::autograd::AutogradContext& context,
                                              const at::Tensor& factor,
                                              size_t arguments) {
  const auto saved = context.get_saved_variables();
  const auto type = [&](const char* name) {
    return static_cast<at::ScalarType>(context.saved_data.at(name).toInt());
  };
  const auto &hidden = saved[0], &weight = saved[1], &bias = saved[2];
  torch::autograd::variable_list list{
      hidden.defined() ? scaled(hidden, hidden.scalar_type(), factor) : at::Tensor(),
      scaled(weight, type("weight_type"), factor),
      scaled(bias, type("bias_type"), factor)};
  list.resize(arguments);
  return list;
}

}  // namespace reprise
