// reprise::drop_into_ on the CPU: a loop that makes the bits as it goes. With ATen's operators they
// would be tensors of int64, several times as large as the values.
#include "ops/drop_bits.h"
#include "ops/operator.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <type_traits>

namespace reprise::ops {

namespace {

constexpr int64_t kGrain = 1 << 14;  // values that are worth a thread

struct Dropped {
  uint64_t seed;
  uint32_t threshold;
  uint64_t first;

  // Calls `visit(i, is_kept)` for values begin to end.
  template <class Visit>
  void for_each(int64_t begin, int64_t end, const Visit& visit) const {
    for (int64_t i = begin; i < end;) {
      const uint64_t number = first + static_cast<uint64_t>(i);
      const uint64_t bits = drop_bits(seed, number / 2);
      if (number % 2 == 0) {
        visit(i++, static_cast<uint32_t>(bits) >= threshold);
      }
      if (i < end) {
        visit(i++, static_cast<uint32_t>(bits >> 32) >= threshold);
      }
    }
  }
};

// Rounded as ATen rounds it: float64 by way of float32 to 16 bits.
template <class Out, class Wide>
Out rounded(Wide value) {
  using Step = std::conditional_t<std::is_same_v<Out, double>, double, float>;
  return static_cast<Out>(static_cast<Step>(value));
}

template <class Out, class In>
void drop(at::Tensor& out, const at::Tensor& x, const Dropped& dropped, bool adds) {
  using Wide =
      std::conditional_t<std::is_same_v<Out, double> || std::is_same_v<In, double>, double, float>;
  Out* to = out.mutable_data_ptr<Out>();
  const In* from = x.const_data_ptr<In>();
  at::parallel_for(0, x.numel(), kGrain, [&](int64_t begin, int64_t end) {
    if (adds) {
      dropped.for_each(begin, end, [&](int64_t i, bool is_kept) {
        const Wide sum = static_cast<Wide>(to[i]) + static_cast<Wide>(from[i]);
        to[i] = is_kept ? rounded<Out>(sum) : to[i];
      });
    } else {
      dropped.for_each(begin, end, [&](int64_t i, bool is_kept) {
        to[i] = is_kept ? rounded<Out>(from[i]) : Out(0);
      });
    }
  });
}

void drop_into_(at::Tensor& out,
                const at::Tensor& x,
                const at::Tensor& seed,
                double p,
                int64_t first,
                bool adds) {
  const Dropped dropped{.seed = static_cast<uint64_t>(*seed.const_data_ptr<int64_t>()),
                        .threshold = drop_threshold(p),
                        .first = static_cast<uint64_t>(first)};
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, out.scalar_type(), "drop_into_", [&] {
    using Out = scalar_t;
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "drop_into_", [&] {
      drop<Out, scalar_t>(out, x, dropped, adds);
    });
  });
}

}  // namespace

TORCH_LIBRARY_IMPL(reprise, CPU, library) {
  library.impl("drop_into_", drop_into_);
}

}  // namespace reprise::ops
