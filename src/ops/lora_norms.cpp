#include "ops/lora_norms.h"

#include "ops/operator.h"
#include "ops/reference.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>

namespace reprise::ops {

namespace reference {

at::Tensor lora_norms(const at::Tensor& weight,
                      const at::Tensor& a,
                      const at::Tensor& b,
                      double scale) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  constexpr int64_t kElements = int64_t{1} << 22;  // of the sum at a time
  const auto type = at::promoteTypes(wide_type(weight), a.scalar_type());
  const auto wide_a = a.to(type), wide_b = b.to(type);
  const int64_t out = weight.size(0);
  const int64_t rows = std::max<int64_t>(1, kElements / std::max<int64_t>(1, weight.size(1)));
  auto norms = at::empty({out}, weight.options().dtype(type));
  for (int64_t start = 0; start < out; start += rows) {
    const int64_t end = std::min(start + rows, out);
    const auto sum = at::addmm(
        weight.slice(0, start, end).to(type), wide_b.slice(0, start, end), wide_a, 1, scale);
    norms.slice(0, start, end).copy_(at::linalg_vector_norm(sum, 2, {1}));
  }
  // A row of zeros has no direction: its magnitude over its norm is 1 then, and not a NaN.
  return norms.clamp_min_(std::numeric_limits<float>::min());
}

}  // namespace reference

at::Tensor lora_norms(const at::Tensor& weight,
                      const at::Tensor& a,
                      const at::Tensor& b,
                      double scale) {
  TORCH_CHECK(weight.dim() == 2 && a.dim() == 2 && b.dim() == 2 && weight.size(0) == b.size(0) &&
                  weight.size(1) == a.size(1) && a.size(0) == b.size(1),
              "[lora_norms] expected a weight (out, in), a (rank, in) and b (out, rank), got ",
              weight.sizes(),
              ", ",
              a.sizes(),
              " and ",
              b.sizes());
  static const auto op = find_operator<decltype(reference::lora_norms)>("reprise::lora_norms");
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return op.call(weight, a, b, scale);
}

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.def("lora_norms(Tensor weight, Tensor a, Tensor b, float scale) -> Tensor");
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("lora_norms", reference::lora_norms);
}

}  // namespace reprise::ops
