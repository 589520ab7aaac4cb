#include "ops/drop.h"

#include "ops/drop_bits.h"
#include "ops/operator.h"
#include "ops/reference.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

namespace reprise::ops {

namespace {

int64_t signed_bits(uint64_t bits) {
  return static_cast<int64_t>(bits);
}

// z >> count for unsigned numbers: int64's own shift repeats the sign.
at::Tensor shifted(const at::Tensor& z, int64_t count) {
  return z.__rshift__(count).bitwise_and_((int64_t{1} << (64 - count)) - 1);
}

// Which of `count` values from number `first` on are kept.
at::Tensor kept(const at::Tensor& seed, double p, int64_t first, int64_t count) {
  const int64_t begin = first / 2, end = (first + count + 1) / 2;
  auto z = at::arange(begin + 1, end + 1, seed.options());
  z.mul_(signed_bits(kDropIncrement)).add_(seed);
  z.bitwise_xor_(shifted(z, 30)).mul_(signed_bits(kDropFactor));
  z.bitwise_xor_(shifted(z, 27)).mul_(signed_bits(kDropLastFactor));
  z.bitwise_xor_(shifted(z, 31));
  const auto halves = at::stack({z.bitwise_and(0xffffffffLL), shifted(z, 32)}, 1).flatten();
  return halves.narrow(0, first % 2, count).ge(static_cast<int64_t>(drop_threshold(p)));
}

}  // namespace

namespace reference {

void drop_into_(at::Tensor& out,
                const at::Tensor& x,
                const at::Tensor& seed,
                double p,
                int64_t first,
                bool adds) {
  const auto left = at::where(kept(seed, p, first, x.numel()).view(x.sizes()), x, 0);
  if (adds) {
    out.add_(left);
  } else {
    out.copy_(left);
  }
}

}  // namespace reference

at::Tensor draw_seed(const at::Tensor& beside) {
  return at::empty({1}, beside.options().dtype(at::kLong).requires_grad(false)).random_();
}

void drop_into(at::Tensor& out,
               const at::Tensor& x,
               const at::Tensor& seed,
               double p,
               int64_t first,
               bool adds) {
  TORCH_CHECK(
      p >= 0 && p < 1 && first >= 0 && seed.scalar_type() == at::kLong && seed.numel() == 1 &&
          seed.device() == x.device() && out.sizes() == x.sizes() && out.is_contiguous() &&
          x.is_contiguous(),
      "[drop] expected p in [0, 1), an int64 seed and contiguous tensors of one shape, got ",
      p,
      ", ",
      seed.scalar_type(),
      seed.sizes(),
      ", ",
      out.sizes(),
      " and ",
      x.sizes());
  static const auto op = find_operator<decltype(reference::drop_into_)>("reprise::drop_into_");
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  op.call(out, x, seed, p, first, adds);
}

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.def(
      "drop_into_(Tensor(a!) out, Tensor x, Tensor seed, float p, int first, bool adds) -> ()");
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("drop_into_", reference::drop_into_);
}

}  // namespace reprise::ops
