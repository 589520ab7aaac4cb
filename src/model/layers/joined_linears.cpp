#include "model/layers/joined_linears.h"

#include "ops/drop.h"
#include "ops/linear/adapted_linear.h"
#include "ops/linear/joined.h"
#include "ops/linear/linear.h"
#include "ops/linear/linear_add.h"
#include "quant/quantized_rows.h"

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

// Whether both weights are matrices, or quantised in one way.
bool can_follow(const Linear& first, const Linear& next) {
  const auto &a = first.quantized(), &b = next.quantized();
  return a == nullptr || b == nullptr ? a == b : quant::can_be_joined(*a, *b);
}

ops::Weight joined_weight(const Linears& linears, const std::vector<FusedValues>& values) {
  if (values.size() == 1) {
    return values.front().weight;
  }
  if (linears.front()->quantized() == nullptr) {
    std::vector<at::Tensor> weights;
    for (const auto& own : values) {
      weights.push_back(own.weight.tensor());
    }
    return joined(weights);
  }
  std::vector<std::shared_ptr<const quant::QuantizedWeight>> weights;
  for (const Linear* linear : linears) {
    weights.push_back(linear->quantized());
  }
  return quant::quantized_rows(std::move(weights));
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

std::optional<FusedValues> joined_values(const Linears& linears,
                                         const at::Tensor& x,
                                         const Pass& pass) {
  std::vector<FusedValues> all;
  std::vector<at::Tensor> biases;
  for (const Linear* linear : linears) {
    auto own = linear->fused_values(x, pass);
    if (!own || !can_follow(*linears.front(), *linear)) {
      return std::nullopt;
    }
    if (own->bias.defined()) {
      biases.push_back(own->bias);
    }
    all.push_back(std::move(*own));
  }
  TORCH_INTERNAL_ASSERT(biases.empty() || biases.size() == all.size());
  return FusedValues{joined_weight(linears, all), biases.empty() ? at::Tensor() : joined(biases)};
}

ops::Adapters joined_branches(const Linears& linears, const at::Tensor& x, const Pass& pass) {
  ops::Adapters all;
  int64_t start = 0;
  for (const Linear* linear : linears) {
    if (const LoraBranch* branch = linear->active_branch(pass.adapters)) {
      const double dropout = pass.trains_adapters() ? branch->dropout() : 0;
      TORCH_INTERNAL_ASSERT(all.empty() || all.dropout == dropout);
      all.dropout = dropout;
      // The start that a branch subtracts is never dropped: then Linear adds it by itself.
      const bool is_whole = dropout == 0;
      all.a.push_back(is_whole ? branch->first_matrix() : branch->a);
      all.b.push_back(is_whole ? branch->last_matrix() : branch->b);
      all.starts.push_back(start);
      all.scales.push_back(branch->scale());
    }
    start += linear->shape().out;
  }
  if (all.dropout > 0) {
    all.seed = ops::draw_seed(x);
  }
  return all;
}

at::Tensor joined_forward(const Linears& linears,
                          const at::Tensor& x,
                          const Pass& pass,
                          const at::Tensor& residual) {
  const auto all = joined_values(linears, x, pass);
  if (!all) {
    return {};
  }
  const auto input = autocast_input(x);
  const auto branches = joined_branches(linears, x, pass);
  if (!branches.empty()) {
    return ops::adapted_linear(input, all->weight, all->bias, residual, branches);
  }
  return residual.defined() ? ops::linear_add(input, all->weight, all->bias, residual)
                            : ops::linear(input, all->weight, all->bias);
}

}  // namespace reprise
