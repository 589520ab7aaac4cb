#include "model/layers/joined_linears.h"

#include "ops/linear/joined.h"
#include "ops/linear/linear.h"
#include "ops/linear/side_by_side.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

namespace reprise {

std::vector<std::shared_ptr<Linear>> adjacent_linears(const std::vector<int64_t>& outs,
                                                      const Linear::Shape& shape,
                                                      const at::TensorOptions& options) {
  std::vector<std::shared_ptr<Linear>> linears;
  const bool joins = shape.layout == WeightLayout::OutIn;
  const auto weights =
      joins ? ops::adjacent_rows(outs, shape.in, options) : std::vector<at::Tensor>();
  const auto biases = joins && shape.has_bias ? ops::adjacent_rows(outs, 0, options)
                                              : std::vector<at::Tensor>(outs.size());
  for (size_t i = 0; i < outs.size(); ++i) {
    Linear::Shape one = shape;
    one.out = outs[i];
    linears.push_back(joins ? std::make_shared<Linear>(one, weights[i], biases[i])
                            : std::make_shared<Linear>(one, options));
  }
  return linears;
}

namespace {

// Copies parts that are not adjacent: results must not depend on the memory layout.
at::Tensor joined(const std::vector<at::Tensor>& parts) {
  if (parts.size() == 1) {
    return parts.front();
  }
  return ops::are_adjacent(parts) ? ops::join_rows(parts) : at::cat(parts, 0);
}

void move_together(const std::vector<at::Tensor>& parts, const Move& move) {
  // If one of them was moved alone, they stay separate.
  const auto is_like_first = [&](const at::Tensor& part) {
    return part.scalar_type() == parts.front().scalar_type() &&
           part.device() == parts.front().device();
  };
  if (!std::all_of(parts.begin(), parts.end(), is_like_first)) {
    return;
  }
  const at::NoGradGuard no_grad;
  const auto whole = move(joined(parts));
  int64_t start = 0;
  for (const auto& part : parts) {
    const int64_t rows = part.size(0);
    part.set_data(whole.narrow(0, start, rows));
    start += rows;
  }
}

}  // namespace

void move_together(const Linears& linears, const Move& move) {
  const bool has_quantized = std::any_of(linears.begin(), linears.end(), [](const auto* linear) {
    return linear->quantized() != nullptr;
  });
  if (linears.size() < 2 || has_quantized ||
      linears.front()->shape().layout != WeightLayout::OutIn) {
    return;
  }
  std::vector<at::Tensor> weights, biases;
  for (const Linear* linear : linears) {
    weights.push_back(linear->weight);
    if (linear->bias.defined()) {
      biases.push_back(linear->bias);
    }
  }
  move_together(weights, move);
  if (!biases.empty()) {
    move_together(biases, move);
  }
}

std::optional<Linear::Values> joined_values(const Linears& linears, const Pass& pass) {
  std::vector<at::Tensor> weights, biases;
  for (const Linear* linear : linears) {
    auto own = linear->fused_values(pass);
    if (!own) {
      return std::nullopt;
    }
    weights.push_back(std::move(own->weight));
    if (own->bias.defined()) {
      biases.push_back(std::move(own->bias));
    }
  }
  TORCH_INTERNAL_ASSERT(biases.empty() || biases.size() == weights.size());
  return Linear::Values{joined(weights), biases.empty() ? at::Tensor() : joined(biases)};
}

namespace {

// The LoRA branches without their last matmul; empty if there are none.
std::vector<ops::ColumnProduct> branches_of(const Linears& linears,
                                            const at::Tensor& x,
                                            const Pass& pass) {
  std::vector<ops::ColumnProduct> parts;
  at::Tensor input;
  int64_t start = 0;
  for (const Linear* linear : linears) {
    if (const LoraBranch* branch = linear->active_branch(pass.adapters)) {
      if (!input.defined()) {  // converted once for all branches
        const bool drops = branch->dropout() > 0 && pass.trains_adapters();
        input = x.to(branch->a.scalar_type());
        input = drops ? input : autocast_input(input);
      }
      parts.push_back({branch->apply_a(input, pass.trains_adapters()), branch->b, start});
    }
    start += linear->shape().out;
  }
  return parts;
}

}  // namespace

at::Tensor joined_branches(const Linears& linears, const at::Tensor& x, const Pass& pass) {
  const auto parts = branches_of(linears, x, pass);
  int64_t width = 0;
  for (const Linear* linear : linears) {
    width += linear->shape().out;
  }
  return parts.empty() ? at::Tensor() : ops::side_by_side(parts, width);
}

at::Tensor joined_forward(const Linears& linears, const at::Tensor& x, const Pass& pass) {
  const auto all = joined_values(linears, pass);
  if (!all) {
    return {};
  }
  const auto product = ops::linear(autocast_input(x), all->weight, all->bias);
  const auto parts = branches_of(linears, x, pass);
  return parts.empty() ? product : ops::add_side_by_side(product, parts);
}

}  // namespace reprise
