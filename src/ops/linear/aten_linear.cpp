#include "ops/linear/aten_linear.h"

#include "ops/cpu/small_batch_linear.h"

#include "memory/planned_device.h"

#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>

namespace reprise::ops {

at::Tensor aten_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const auto device = memory::kernel_type(x.device());
  const bool is_planned = x.is_meta() && device != c10::kMeta && x.scalar_type() != at::kDouble;
  if (is_planned && at::autocast::is_autocast_enabled(device)) {
    const auto type = at::autocast::get_autocast_dtype(device);
    // One after the other, in the order in which autocast converts the arguments of a call.
    const auto last = bias.defined() ? bias.to(type) : at::Tensor();
    const auto second = weight.to(type);
    return at::linear(x.to(type), second, last);
  }
  return at::linear(x, weight, bias);
}

at::Tensor plain_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (!serves_small_batch(x, weight, bias)) {
    return aten_linear(x, weight, bias);
  }
  return small_batch_linear(x.squeeze(1), weight, bias).unsqueeze(1);
}

}  // namespace reprise::ops
