#include "model/layers/linear.h"

#include "memory/planned_device.h"
#include "model/layers/joined_linears.h"
#include "model/lora/dora.h"
#include "ops/linear/adapted_linear.h"
#include "ops/linear/adapted_sum.h"
#include "ops/linear/aten_linear.h"
#include "quant/quantized_rows.h"

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

// In such a pass autocast converts a weight once for all tokens.
bool caches_casts(const at::Tensor& x, const Pass& pass) {
  return pass.has_cache && at::autocast::is_autocast_enabled(memory::kernel_type(x.device()));
}

bool drops_beside_start(const LoraBranch& branch, const Pass& pass) {
  return branch.subtracts_start() && branch.dropout() > 0 && pass.trains_adapters();
}

// What such a branch subtracts, as an adapter of its own.
ops::Adapters start_of(const LoraBranch& branch) {
  return {.a = {branch.start_a},
          .b = {branch.minus_start_b},
          .starts = {0},
          .scales = {branch.scale()}};
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
  const LoraBranch* branch = active_branch(pass.adapters);
  if (branch != nullptr && branch->is_dora()) {
    // A dequantised weight is gone before a product makes another.
    const auto factors = branch->row_factors(matrix(pass.adapters).weight);
    const auto own = values(pass.adapters);
    const auto product = [&](const at::Tensor& input, const at::Tensor& own_bias) {
      return quantized_ == nullptr
                 ? apply_linear(input, as_out_in(own.weight), own_bias, options.precision)
                 : quantized_product(input, own_bias, options.precision);
    };
    return dora_linear(*branch,
                       x,
                       {.factors = factors, .bias = own.bias, .product = product},
                       pass.trains_adapters());
  }
  if (options.precision == Precision::AsGiven && branch != nullptr) {
    if (const auto own = adapted_values(x, pass)) {
      return ops::adapted_linear(
          autocast_input(x), own->weight, own->bias, {}, joined_branches({this}, x, pass));
    }
  }
  const auto [w, b] = values(pass.adapters);
  const auto y = quantized_ == nullptr ? apply_linear(x, as_out_in(w), b, options.precision)
                                       : quantized_product(x, b, options.precision);
  return add_branch(y, x, pass);
}

std::optional<FusedValues> Linear::fused_values(const at::Tensor& x, const Pass& pass) const {
  const bool is_adjacent = quantized_ != nullptr || shape_.layout == WeightLayout::OutIn;
  if (!is_adjacent || caches_casts(x, pass) || computes_alone(pass)) {
    return std::nullopt;
  }
  const auto own = values(pass.adapters);
  if (quantized_ == nullptr) {
    return FusedValues{own.weight, own.bias};
  }
  const auto type = autocast_type(x);
  if (compute_type_.value_or(type) != type) {
    return std::nullopt;
  }
  return FusedValues{quant::quantized_rows({quantized_}), own.bias};
}

// With DoRA, or with dropout beside a start that is subtracted and not dropped.
bool Linear::computes_alone(const Pass& pass) const {
  const LoraBranch* branch = active_branch(pass.adapters);
  return branch != nullptr && (branch->is_dora() || drops_beside_start(*branch, pass));
}

Linear::Values Linear::matrix(AdapterUse adapters) const {
  auto own = values(adapters);
  own.weight = quantized_ == nullptr ? as_out_in(own.weight) : full_weight(quantized_->source_type);
  return own;
}

// For reprise::adapted_linear, which takes a weight that is stored (in, out) as well.
std::optional<FusedValues> Linear::adapted_values(const at::Tensor& x, const Pass& pass) const {
  if (quantized_ != nullptr || shape_.layout == WeightLayout::OutIn) {
    return fused_values(x, pass);
  }
  if (caches_casts(x, pass) || computes_alone(pass)) {
    return std::nullopt;
  }
  const auto own = matrix(pass.adapters);
  return FusedValues{own.weight, own.bias};
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
  const LoraBranch* branch = active_branch(pass.adapters);
  if (branch == nullptr) {
    return y;
  }
  const auto input = autocast_input(x);
  const auto sum = ops::adapted_sum(y, input, joined_branches({this}, x, pass));
  return drops_beside_start(*branch, pass) ? ops::adapted_sum(sum, input, start_of(*branch)) : sum;
}

LinearHead Linear::as_head(const Pass& pass, bool in_float32) const {
  const auto [w, b] = values(pass.adapters);
  LinearHead head{as_out_in(w), b, in_float32};
  if (const LoraBranch* branch = active_branch(pass.adapters)) {
    const bool drops = branch->dropout() > 0 && pass.trains_adapters();
    TORCH_CHECK(!drops,
                "[lora] an adapter on the head cannot have dropout in training: the head is one "
                "matrix there. Set lora_dropout to 0, or leave the head out of the targets.");
    head.weight = branch->merged(head.weight).to(head.weight.scalar_type());
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
  TORCH_INTERNAL_ASSERT(branch_ != nullptr && !is_folded_ && quantized_ == nullptr);
  const at::NoGradGuard no_grad;
  const auto merged = as_out_in(branch_->merged(as_out_in(weight)));
  keep_original();
  weight.copy_(merged);
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
