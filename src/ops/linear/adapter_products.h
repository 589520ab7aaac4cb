// What LoRA adapters compute: the part that the operators with adapters share.
//
// Note [What adapters add]
// Every adapter adds scale * drop(x) a^T b^T to its columns of a product that is already there. All
// a are stacked, so one narrow product reads the input, and each b is multiplied onto its columns
// in place: no tensor as wide as the product is made. With a b of zeros the product keeps its bits.
//
// Note [The type that adapters are multiplied in]
// On a GPU it is that of x: the small matrices are converted, never x, and sums are float32.
// Elsewhere it is the wider of both types, at least float32. What is as wide as x and has to be
// converted or dropped is copied some rows at a time.
#pragma once

#include "ops/linear/adapters.h"

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// product (..., width) += what the adapters add for x. The product is contiguous.
REPRISE_API void add_adapters(at::Tensor& product, const at::Tensor& x, const Adapters& adapters);

/// The backward of add_adapters(), in two steps: x may be known only after its gradient.
class AdapterBackward {
 public:
  /// `gradient`: of the product.
  AdapterBackward(Adapters adapters, const at::Tensor& gradient);

  /// for_x (..., in), contiguous and of the type of x, += its gradient through the adapters.
  void add_to(at::Tensor& for_x) const;
  /// Gradients of all a and all b; x is read only if one is needed.
  AdapterGradients factors(const at::Tensor& x, const AdapterNeeds& needs) const;

 private:
  Adapters adapters_;
  at::Tensor gradient_;  // (rows, width)
  at::ScalarType type_;  // Note [The type that adapters are multiplied in]
  at::Tensor stacked_;   // (ranks, in)
  at::Tensor low_;       // gradient of the low-rank rows, (rows, ranks)
};

}  // namespace reprise::ops
