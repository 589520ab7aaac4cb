#include "model/layers/weight_and_bias.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace reprise {

namespace {

at::Tensor frozen(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.detach().clone() : at::Tensor();
}

}  // namespace

void WeightAndBias::keep_original() {
  TORCH_INTERNAL_ASSERT(!has_original());
  original_ = {frozen(weight), frozen(bias)};
}

void WeightAndBias::keep_reference() {
  reference_ = {frozen(weight), frozen(bias)};
}

void WeightAndBias::restore_original() {
  TORCH_INTERNAL_ASSERT(has_original());
  const at::NoGradGuard no_grad;
  weight.copy_(original_.weight);
  if (bias.defined()) {
    bias.copy_(original_.bias);
  }
  original_ = {};
}

void WeightAndBias::forget_copies() {
  original_ = {};
  reference_ = {};
}

WeightAndBias::Values WeightAndBias::values(AdapterUse use) const {
  if (use == AdapterUse::Reference && reference_.weight.defined()) {
    return reference_;
  }
  if (use != AdapterUse::Trained && has_original()) {
    return original_;
  }
  return {weight, bias};
}

}  // namespace reprise
