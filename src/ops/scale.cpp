#include "ops/scale.h"

#include "ops/operator.h"
#include "ops/reference.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <algorithm>

namespace reprise::ops {

namespace reference {

void scale_into_(at::Tensor& out, const at::Tensor& values, const at::Tensor& factor) {
  const auto type = wide_type(values);
  if (out.scalar_type() == type && values.scalar_type() == type) {
    at::mul_out(out, values, factor);
    return;
  }
  constexpr int64_t kRows = 4096;  // rows converted to the wider type at a time
  for (int64_t start = 0; start < values.size(0); start += kRows) {
    const auto end = std::min(start + kRows, values.size(0));
    out.slice(0, start, end).copy_(values.slice(0, start, end).to(type) * factor);
  }
}

}  // namespace reference

void scale_into(at::Tensor& out, const at::Tensor& values, const at::Tensor& factor) {
  static const auto op = find_operator<decltype(reference::scale_into_)>("reprise::scale_into_");
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  op.call(out, values, factor);
}

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.def("scale_into_(Tensor(a!) out, Tensor values, Tensor factor) -> ()");
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("scale_into_", reference::scale_into_);
}

}  // namespace reprise::ops
