#include "model/linear.h"

#include "ops/add_rounded.h"
#include "ops/few_rows_linear.h"
#include "ops/linear.h"
#include "ops/linear_add.h"

#include <reprise/autocast.h>
#include <reprise/detail/planned_device.h>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

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

// (out, in) from what is stored, and back.
at::Tensor Linear::in_out_order(const at::Tensor& w) const {
  return shape_.layout == WeightLayout::OutIn ? w : w.t();
}

at::Tensor Linear::forward(const at::Tensor& x, const Pass& pass) const {
  const auto [w, b] = values(pass.adapters);
  return add_branch(apply_linear(x, in_out_order(w), b), x, pass);
}

at::Tensor Linear::forward_in_float32(const at::Tensor& x, const Pass& pass) const {
  const AutocastScope no_autocast(detail::kernel_type(x.device()), at::kFloat, /*enabled=*/false);
  const auto [w, b] = values(pass.adapters);
  return add_branch(linear_in_float32(x, in_out_order(w), b), x, pass);
}

std::optional<Linear::Product> Linear::product(const Pass& pass) const {
  if (shape_.layout != WeightLayout::OutIn ||
      (pass.has_cache && at::autocast::is_autocast_enabled(detail::kernel_type(weight.device())))) {
    return std::nullopt;
  }
  const auto [w, b] = values(pass.adapters);
  return Product{w, b};
}

at::Tensor product_input(const at::Tensor& x) {
  const auto device = detail::kernel_type(x.device());
  // Autocast leaves float64 alone.
  const bool converts = at::autocast::is_autocast_enabled(device) && x.scalar_type() != at::kDouble;
  return converts ? x.to(at::autocast::get_autocast_dtype(device)) : x;
}

at::Tensor Linear::forward_onto(const at::Tensor& stream,
                                const at::Tensor& x,
                                const Pass& pass) const {
  const auto own = product(pass);
  if (!own) {
    return stream + forward(x, pass);
  }
  const auto input = product_input(x);
  if (stream.scalar_type() != input.scalar_type()) {  // under autocast the stream stays wide
    return stream + add_branch(ops::linear(input, own->weight, own->bias), x, pass);
  }
  return add_branch(ops::linear_add(input, own->weight, own->bias, stream), x, pass);
}

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

// Summed in the wider type and rounded once, as peft does.
at::Tensor Linear::add_branch(const at::Tensor& y, const at::Tensor& x, const Pass& pass) const {
  const LoraBranch* branch = active_branch(pass.adapters);
  return branch == nullptr ? y : ops::add_rounded(y, branch->forward(x, pass.trains_adapters()));
}

LinearHead Linear::as_head(const Pass& pass, bool in_float32) const {
  const auto [w, b] = values(pass.adapters);
  LinearHead head{in_out_order(w), b, in_float32};
  if (const LoraBranch* branch = active_branch(pass.adapters)) {
    const bool drops = branch->dropout() > 0 && pass.trains_adapters();
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
  const AutocastScope no_autocast(detail::kernel_type(x.device()), at::kFloat, /*enabled=*/false);
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
