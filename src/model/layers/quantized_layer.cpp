// What a Linear does while its weight is quantised.
#include "memory/planned_device.h"
#include "model/layers/linear.h"
#include "ops/linear/linear.h"
#include "quant/quantized_rows.h"

#include <reprise/autocast.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

namespace reprise {

void Linear::quantize(const QuantScheme& scheme, std::optional<at::ScalarType> compute_type) {
  const at::NoGradGuard no_grad;
  const auto device = weight.device();
  const auto matrix = as_out_in(weight.is_meta() ? weight : weight.to(at::kCPU));
  set_quantized(
      std::make_shared<const quant::QuantizedWeight>(quant::quantize(matrix, scheme).to(device)),
      compute_type);
}

void Linear::set_quantized(std::shared_ptr<const quant::QuantizedWeight> quantized,
                           std::optional<at::ScalarType> compute_type) {
  TORCH_INTERNAL_ASSERT(quantized->out == shape_.out && quantized->in == shape_.in && !is_folded_);
  quantized_ = std::move(quantized);
  compute_type_ = compute_type;
  if (weight.defined()) {
    parameters_.erase("weight");
    weight = at::Tensor();
  }
}

void Linear::dequantize(at::ScalarType type) {
  const at::NoGradGuard no_grad;
  TORCH_INTERNAL_ASSERT(quantized_ != nullptr);
  const auto matrix = quant::dequantize(*quantized_, type);
  parameters_.clear();  // in the order of other layers: the weight first
  weight = register_parameter("weight", as_out_in(matrix).contiguous());
  if (bias.defined()) {
    const bool is_trained = bias.requires_grad();
    bias = register_parameter("bias", bias.to(type), is_trained);
  }
  quantized_ = nullptr;
  compute_type_.reset();
}

at::Tensor Linear::full_weight(at::ScalarType type) const {
  return quantized_ == nullptr ? as_out_in(weight).to(type) : quant::dequantize(*quantized_, type);
}

at::TensorOptions Linear::options() const {
  return quantized_ == nullptr ? weight.options()
                               : at::device(quantized_->device()).dtype(quantized_->source_type);
}

at::Tensor Linear::quantized_product(const at::Tensor& x,
                                     const at::Tensor& own_bias,
                                     Precision precision) const {
  const auto input = precision == Precision::Float32 ? x.to(at::kFloat)
                     : compute_type_                 ? x.to(*compute_type_)
                                                     : autocast_input(x);
  const auto b = own_bias.defined() ? own_bias.to(input.scalar_type()) : own_bias;
  const AutocastScope no_autocast(memory::kernel_type(x.device()), at::kFloat, /*enabled=*/false);
  const auto y = ops::linear(input, quant::quantized_rows({quantized_}), b);
  return precision == Precision::AsGiven && compute_type_ ? y.to(x.scalar_type()) : y;
}

// A type is for parameters: that of codes and scales stays.
void Linear::move_quantized(at::Device device, bool non_blocking) {
  if (quantized_ != nullptr) {
    quantized_ =
        std::make_shared<const quant::QuantizedWeight>(quantized_->to(device, non_blocking));
  }
}

void Linear::to(torch::Device device, torch::Dtype dtype, bool non_blocking) {
  move_quantized(device, non_blocking);
  Module::to(device, dtype, non_blocking);
}

void Linear::to(torch::Dtype dtype, bool non_blocking) {
  Module::to(dtype, non_blocking);
}

void Linear::to(torch::Device device, bool non_blocking) {
  move_quantized(device, non_blocking);
  Module::to(device, non_blocking);
}

}  // namespace reprise
