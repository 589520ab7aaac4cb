#include "ops/linear/adapters.h"

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>

namespace reprise::ops {

void check_adapters(
    const char* name, const at::Tensor& x, int64_t in, int64_t out, const Adapters& adapters) {
  const size_t count = adapters.a.size();
  TORCH_CHECK(count > 0 && adapters.b.size() == count && adapters.starts.size() == count &&
                  adapters.scales.size() == count,
              "[",
              name,
              "] expected as many a, b, starts and scales of adapters, got ",
              count,
              ", ",
              adapters.b.size(),
              ", ",
              adapters.starts.size(),
              " and ",
              adapters.scales.size());
  TORCH_CHECK(adapters.dropout >= 0 && adapters.dropout < 1,
              "[",
              name,
              "] expected a dropout in [0, 1), got ",
              adapters.dropout);
  int64_t end = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto &a = adapters.a[i], &b = adapters.b[i];
    const auto has_type = [&](const at::Tensor& tensor) {
      return tensor.scalar_type() == adapters.a.front().scalar_type() &&
             tensor.device() == x.device();
    };
    TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == in && b.size(1) == a.size(0) &&
                    has_type(a) && has_type(b) && adapters.starts[i] >= end &&
                    adapters.starts[i] + b.size(0) <= out,
                "[",
                name,
                "] expected adapters a (rank, ",
                in,
                ") and b (columns, rank) of one type on ",
                x.device(),
                ", one behind the other in ",
                out,
                " columns, got ",
                a.scalar_type(),
                a.sizes(),
                " and ",
                b.scalar_type(),
                b.sizes(),
                " at ",
                adapters.starts[i]);
    end = adapters.starts[i] + b.size(0);
  }
}

bool are_trained(const Adapters& adapters) {
  const auto is_trained = [](const at::Tensor& tensor) { return tensor.requires_grad(); };
  return std::any_of(adapters.a.begin(), adapters.a.end(), is_trained) ||
         std::any_of(adapters.b.begin(), adapters.b.end(), is_trained);
}

}  // namespace reprise::ops
