#include <reprise/model/head.h>

#include "ops/operator.h"

#include <ATen/ATen.h>

namespace reprise {

at::Tensor shaped_logits(const at::Tensor& products, const LogitShape& shape) {
  if (shape.is_plain()) {
    return products;
  }
  const auto scaled = products.to(ops::wide_type(products)) * shape.scale;
  const auto logits = shape.softcap == 0 ? scaled : (scaled / shape.softcap).tanh() * shape.softcap;
  return logits.to(products.scalar_type());
}

}  // namespace reprise
