#include "model/layers/linear.h"

#include "memory/planned_device.h"
#include "model/layers/joined_linears.h"
#include "ops/linear/adapted_linear.h"
#include "ops/linear/adapted_sum.h"
#include "ops/linear/aten_linear.h"

#include <reprise/autocast.h>

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

Linear::Linear(const Shape& shape, const at::Tensor& weight_storage, const at::Tensor& bias_storage)
    : shape_(shape) {
  weight = register_parameter("weight", weight_storage);
  if (bias_storage.defined()) {
    bias = register_parameter("bias", bias_storage);
  }
}

namespace {

at::ScalarType autocast_type(const at::Tensor& x) {
  const auto device = memory::kernel_type(x.device());
  // Autocast leaves float64 alone.
  const bool converts = at::autocast::is_autocast_enabled(device) && x.scalar_type() != at::kDouble;
  return converts ? at::autocast::get_autocast_dtype(device) : x.scalar_type();
}

}  // namespace

// The stored weight as (out, in), or such a matrix as it is stored.
at::Tensor Linear::as_out_in(const at::Tensor& stored) const {
  return shape_.layout == WeightLayout::OutIn ? stored : stored.t();
}

at::Tensor Linear::forward(const at::Tensor& x,
                           const Pass& pass,
                           const LinearOptions& options) const {
  if (options.residual.defined()) {
    TORCH_INTERNAL_ASSERT(options.precision == Precision::AsGiven);
    return forward_onto(options.residual, x, pass);
  }
  std::optional<AutocastScope> no_autocast;  // for the branch too
  if (options.precision == Precision::Float32) {
    no_autocast.emplace(memory::kernel_type(x.device()), at::kFloat, /*enabled=*/false);
  }
  if (options.precision == Precision::AsGiven && active_branch(pass.adapters) != nullptr) {
    if (const auto own = adapted_values(pass)) {
      return ops::adapted_linear(
          autocast_input(x), own->weight, own->bias, {}, joined_branches({this}, x, pass));
    }
  }
  const auto [w, b] = values(pass.adapters);
  return add_branch(apply_linear(x, as_out_in(w), b, options.precision), x, pass);
}

std::optional<Linear::Values> Linear::fused_values(const Pass& pass) const {
  if (shape_.layout != WeightLayout::OutIn ||
      (pass.has_cache && at::autocast::is_autocast_enabled(memory::kernel_type(weight.device())))) {
    return std::nullopt;
  }
  return values(pass.adapters);
}

// For reprise::adapted_linear, which takes a weight that is stored (in, out) as well.
std::optional<Linear::Values> Linear::adapted_values(const Pass& pass) const {
  if (shape_.layout == WeightLayout::OutIn) {
    return fused_values(pass);
  }
  if (pass.has_cache && at::autocast::is_autocast_enabled(memory::kernel_type(weight.device()))) {
    return std::nullopt;
  }
  auto own = values(pass.adapters);
  own.weight = as_out_in(own.weight);
  return own;
}

at::Tensor Linear::forward_onto(const at::Tensor& residual,
                                const at::Tensor& x,
                                const Pass& pass) const {
  // Under autocast the residual stays wide.
  const bool is_wider = residual.scalar_type() != autocast_type(x);
  const auto sum = joined_forward({this}, x, pass, is_wider ? at::Tensor() : residual);
  if (!sum.defined()) {
    return residual + forward(x, pass);
  }
  return is_wider ? residual + sum : sum;
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
  const auto branches = joined_branches({this}, x, pass);
  return branches.empty() ? y : ops::adapted_sum(y, autocast_input(x), branches);
}

LinearHead Linear::as_head(const Pass& pass, bool in_float32) const {
  const auto [w, b] = values(pass.adapters);
  LinearHead head{as_out_in(w), b, in_float32};
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
  const auto delta = as_out_in(branch_->delta());
  keep_original();
  weight.add_(delta);
  is_folded_ = true;
}

void Linear::unfold_branch() {
  TORCH_INTERNAL_ASSERT(is_folded_);
  restore_original();
  is_folded_ = false;
}

at::Tensor apply_linear(const at::Tensor& x,
                        const at::Tensor& weight,
                        const at::Tensor& bias,
                        Precision precision) {
  if (precision == Precision::AsGiven) {
    return ops::plain_linear(x, weight, bias);
  }
  const AutocastScope no_autocast(memory::kernel_type(x.device()), at::kFloat, /*enabled=*/false);
  return ops::plain_linear(
      x.to(at::kFloat), weight.to(at::kFloat), bias.defined() ? bias.to(at::kFloat) : at::Tensor());
}

at::Tensor autocast_input(const at::Tensor& x) {
  return x.to(autocast_type(x));
}

Embedding::Embedding(int64_t rows, int64_t columns, const at::TensorOptions& options) {
  weight = register_parameter("weight", at::empty({rows, columns}, options));
}

at::Tensor Embedding::forward(const at::Tensor& ids, AdapterUse adapters) const {
  return at::embedding(values(adapters).weight, ids, fixed_row_);
}

void Embedding::fix_row(std::optional<int64_t> row) {
  fixed_row_ = row && *row < weight.size(0) ? *row : kNoRow;
}

}  // namespace reprise
