// Multiplies values by one factor and writes them, perhaps in another type, without a temporary
// copy of all values (reprise::scale_into_).
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// out = values * factor, computed in the wider type and rounded once. `out` may be `values`; the
/// factor is a scalar tensor on their device.
REPRISE_API void scale_into(at::Tensor& out, const at::Tensor& values, const at::Tensor& factor);

}  // namespace reprise::ops
