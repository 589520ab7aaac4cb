#include "model/linear.h"

#include "ops/add_rounded.h"
#include "ops/few_rows_linear.h"
#include "ops/joined.h"
#include "ops/linear_add.h"

#include <reprise/autocast.h>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

namespace reprise {

Linear::Linear(const Shape& shape, const at::TensorOptions& options)
    : Linear(shape,
             shape.layout == WeightLayout::OutIn ? at::empty({shape.out, shape.in}, options)
                                                 : at::empty({shape.in, shape.out}, options),
             shape.has_bias ? at::empty({shape.out}, options) : at::Tensor()) {}

Linear::Linear(const Shape& shape, const at::Tensor& weight_room, const at::Tensor& bias_room)
    : shape_(shape) {
  weight = register_parameter("weight", weight_room);
  if (bias_room.defined()) {
    bias = register_parameter("bias", bias_room);
  }
}

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

// (out, in) from what is stored, and back.
at::Tensor Linear::in_out_order(const at::Tensor& w) const {
  return shape_.layout == WeightLayout::OutIn ? w : w.t();
}

at::Tensor Linear::forward(const at::Tensor& x, const Pass& pass) const {
  const auto [w, b] = values(pass.adapters);
  return add_branch(apply_linear(x, in_out_order(w), b), x, pass);
}

at::Tensor Linear::forward_in_float32(const at::Tensor& x, const Pass& pass) const {
  const AutocastScope no_autocast(x.device().type(), at::kFloat, /*enabled=*/false);
  const auto [w, b] = values(pass.adapters);
  return add_branch(linear_in_float32(x, in_out_order(w), b), x, pass);
}

std::optional<Linear::Product> Linear::product(const Pass& pass) const {
  if (shape_.layout != WeightLayout::OutIn ||
      at::autocast::is_autocast_enabled(weight.device().type())) {
    return std::nullopt;
  }
  const auto [w, b] = values(pass.adapters);
  return Product{w, b};
}

at::ScalarType Linear::branch_type(const Pass& pass) const {
  return active_branch(pass.adapters)->a.scalar_type();
}

bool Linear::has_branch(const Pass& pass) const {
  return active_branch(pass.adapters) != nullptr;
}

at::Tensor Linear::forward_onto(const at::Tensor& stream,
                                const at::Tensor& x,
                                const Pass& pass) const {
  const auto own = product(pass);
  if (!own || stream.scalar_type() != x.scalar_type()) {
    return stream + forward(x, pass);
  }
  return add_branch(ops::linear_add(x, own->weight, own->bias, stream), x, pass);
}

namespace {

// Bits do not depend on where weights lie: parts that are not adjacent (any more) are copied.
at::Tensor joined(const std::vector<at::Tensor>& parts) {
  return ops::are_adjacent(parts) ? ops::join_rows(parts) : at::cat(parts, 0);
}

}  // namespace

std::optional<Linear::Product> joined_product(std::initializer_list<const Linear*> linears,
                                              const Pass& pass) {
  std::vector<at::Tensor> weights, biases;
  for (const Linear* linear : linears) {
    auto own = linear->product(pass);
    if (!own) {
      return std::nullopt;
    }
    weights.push_back(std::move(own->weight));
    if (own->bias.defined()) {
      biases.push_back(std::move(own->bias));
    }
  }
  TORCH_INTERNAL_ASSERT(biases.empty() || biases.size() == weights.size());
  return Linear::Product{joined(weights), biases.empty() ? at::Tensor() : joined(biases)};
}

at::Tensor add_adapters(const at::Tensor& product, const at::Tensor& added) {
  return added.defined() ? ops::add_rounded(product, added) : product;
}

at::Tensor joined_branches(std::initializer_list<const Linear*> linears,
                           const at::Tensor& x,
                           const Pass& pass) {
  const auto has_branch = [&](const Linear* linear) { return linear->has_branch(pass); };
  if (std::none_of(linears.begin(), linears.end(), has_branch)) {
    return {};
  }
  // In the type of their matrices once, not for each.
  const auto* first = *std::find_if(linears.begin(), linears.end(), has_branch);
  const auto input = x.to(first->branch_type(pass));
  std::vector<at::Tensor> parts;
  for (const Linear* linear : linears) {
    if (has_branch(linear)) {
      parts.push_back(linear->branch_output(input, pass));
    } else {
      auto sizes = x.sizes().vec();
      sizes.back() = linear->shape().out;
      parts.push_back(at::zeros(sizes, input.options().requires_grad(false)));
    }
  }
  return at::cat(parts, -1);
}

// The branch that takes part in a pass; null: none.
const LoraBranch* Linear::active_branch(AdapterUse adapters) const {
  if (adapters == AdapterUse::Reference) {
    return reference_branch_.get();
  }
  if (adapters == AdapterUse::Off || branch_ == nullptr) {
    return nullptr;
  }
  TORCH_CHECK(!is_folded_ || !at::GradMode::is_enabled() || !branch_->a.requires_grad(),
              "[lora] the adapters are merged for now, so no gradient reaches them: end the "
              "MergedLora before training, or switch gradients off.");
  return is_folded_ ? nullptr : branch_.get();
}

at::Tensor Linear::branch_output(const at::Tensor& x, const Pass& pass) const {
  const bool is_training = pass.training && pass.adapters == AdapterUse::Trained;
  return active_branch(pass.adapters)->forward(x, is_training);
}

at::Tensor Linear::add_branch(const at::Tensor& y, const at::Tensor& x, const Pass& pass) const {
  return has_branch(pass) ? add_adapters(y, branch_output(x, pass)) : y;
}

LinearHead Linear::as_head(const Pass& pass, bool in_float32) const {
  const auto [w, b] = values(pass.adapters);
  LinearHead head{in_out_order(w), b, in_float32};
  if (const LoraBranch* branch = active_branch(pass.adapters)) {
    const bool drops =
        branch->dropout() > 0 && pass.training && pass.adapters == AdapterUse::Trained;
    TORCH_CHECK(!drops,
                "[lora] an adapter on the head cannot have dropout in training: the head is one "
                "matrix there. Set lora_dropout to 0, or leave the head out of the targets.");
    head.weight = (head.weight + branch->delta()).to(head.weight.scalar_type());
  }
  return head;
}

void Linear::set_branch(std::shared_ptr<LoraBranch> branch) {
  if (branch_ != nullptr) {
    unregister_module("lora");
  }
  branch_ = std::move(branch);
  is_folded_ = false;
  if (branch_ != nullptr) {
    register_module("lora", branch_);
  }
}

void Linear::fold_branch() {
  TORCH_INTERNAL_ASSERT(branch_ != nullptr && !is_folded_);
  const at::NoGradGuard no_grad;
  const auto delta = in_out_order(branch_->delta());
  keep_original();
  weight.add_(delta);
  is_folded_ = true;
}

void Linear::unfold_branch() {
  TORCH_INTERNAL_ASSERT(is_folded_);
  restore_original();
  is_folded_ = false;
}

at::Tensor linear_in_float32(const at::Tensor& x,
                             const at::Tensor& weight,
                             const at::Tensor& bias) {
  const AutocastScope no_autocast(x.device().type(), at::kFloat, /*enabled=*/false);
  return apply_linear(
      x.to(at::kFloat), weight.to(at::kFloat), bias.defined() ? bias.to(at::kFloat) : at::Tensor());
}

Embedding::Embedding(int64_t rows, int64_t columns, const at::TensorOptions& options) {
  weight = register_parameter("weight", at::empty({rows, columns}, options));
}

at::Tensor Embedding::forward(const at::Tensor& ids, AdapterUse adapters) const {
  return at::embedding(values(adapters).weight, ids);
}

}  // namespace reprise
