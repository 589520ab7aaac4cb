// Values times one factor, in another type perhaps, without a copy of them all in between
// (reprise::scale_into_).
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// out = values * factor, computed in the wider type and rounded once. out may be values; factor is
/// a scalar on their device.
REPRISE_API void scale_into(at::Tensor& out, const at::Tensor& values, const at::Tensor& factor);

}  // namespace reprise::ops
