#include "model/lora/dora.h"

#include "ops/add_rounded.h"

#include <ATen/ATen.h>

namespace reprise {

at::Tensor dora_linear(const LoraBranch& branch,
                       const at::Tensor& x,
                       const DoraBase& base,
                       bool training) {
  const bool drops = training && branch.dropout() > 0;
  const auto input =
      drops ? at::dropout(x.to(branch.a.scalar_type()), branch.dropout(), /*train=*/true) : x;
  const auto product = base.product(input.to(x.scalar_type()), {});
  const auto both = ops::add_rounded(product, branch.forward(input));
  auto y = both * base.factors;
  if (drops) {  // only the dropped part of the base product is scaled
    y = y + base.product(x, base.bias) - product;
  } else if (base.bias.defined()) {
    y = y + base.bias;
  }
  return y.to(product.scalar_type());
}

}  // namespace reprise
