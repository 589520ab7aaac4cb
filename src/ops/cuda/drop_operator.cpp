// reprise::drop_into_ on a GPU.
#include "ops/cuda/tensors.h"
#include "ops/drop_bits.h"
#include "ops/kernel_allocations.h"
#include "ops/reference.h"

#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

namespace reprise::cuda {

namespace {

void drop_into_(at::Tensor& out,
                const at::Tensor& x,
                const at::Tensor& seed,
                double p,
                int64_t first,
                bool adds) {
  if (!ops::are_kernel_types(out, x)) {
    ops::reference::drop_into_(out, x, seed, p, first, adds);
    return;
  }
  const c10::DeviceGuard device(out.device());
  launch(Drop{.in_type = type_of(x),
              .out_type = type_of(out),
              .x = x.const_data_ptr(),
              .out = out.mutable_data_ptr(),
              .seed = seed.const_data_ptr<int64_t>(),
              .count = x.numel(),
              .first = first,
              .threshold = ops::drop_threshold(p),
              .adds = adds},
         stream_of(out));
}

}  // namespace

TORCH_LIBRARY_IMPL(reprise, CUDA, library) {
  library.impl("drop_into_", drop_into_);
}

}  // namespace reprise::cuda
