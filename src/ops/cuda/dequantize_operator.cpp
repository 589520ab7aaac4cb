// reprise::dequantize_ on a GPU.
#include "ops/cuda/tensors.h"
#include "ops/kernel_allocations.h"
#include "quant/dequantize.h"
#include "quant/tables.h"

#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <algorithm>

namespace reprise::cuda {

namespace {

void dequantize_(at::Tensor& out,
                 const at::Tensor& packed,
                 const at::Tensor& scales,
                 const std::optional<at::Tensor>& nested_scales,
                 const std::optional<at::Tensor>& nested_map,
                 double offset,
                 int64_t format,
                 int64_t block) {
  const auto kind = static_cast<QuantFormat>(format);
  Dequantize job{.type = type_of(out),
                 .is_int8 = kind == QuantFormat::Int8,
                 .packed = packed.const_data_ptr(),
                 .scales = nested_scales ? nullptr : scales.const_data_ptr<float>(),
                 .scale_codes = nested_scales ? scales.const_data_ptr<uint8_t>() : nullptr,
                 .nested_scales = nested_scales ? nested_scales->const_data_ptr<float>() : nullptr,
                 .nested_map = nested_map ? nested_map->const_data_ptr<float>() : nullptr,
                 .offset = static_cast<float>(offset),
                 .numbers = {},
                 .out = out.mutable_data_ptr(),
                 .count = out.numel(),
                 .columns = std::max<int64_t>(1, out.size(-1)),
                 .block = block};
  const auto& numbers = quant::numbers_of(kind);
  std::copy(numbers.begin(), numbers.end(), job.numbers);
  if (!ops::are_kernel_types(out) || !can_launch(job)) {
    quant::reference::dequantize_(
        out, packed, scales, nested_scales, nested_map, offset, format, block);
    return;
  }
  const c10::DeviceGuard device(out.device());
  launch(job, stream_of(out));
}

}  // namespace

TORCH_LIBRARY_IMPL(reprise, CUDA, library) {
  library.impl("dequantize_", dequantize_);
}

}  // namespace reprise::cuda
