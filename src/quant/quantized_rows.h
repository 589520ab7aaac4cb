// Quantised weights of layers that share an input, as one weight of a linear operator
// (reprise::dequantized_rows): Note [Weights that are made].
#pragma once

#include "ops/linear/weight.h"
#include "quant/quantized_weight.h"

#include <reprise/export.h>

#include <memory>
#include <vector>

namespace reprise::quant {

/// The rows of these weights, one below the other. All have the same scheme, `in` and device.
REPRISE_API std::shared_ptr<const ops::WeightSource> quantized_rows(
    std::vector<std::shared_ptr<const QuantizedWeight>> weights);

/// Whether they have, so that quantized_rows() takes them.
REPRISE_API bool can_be_joined(const QuantizedWeight& a, const QuantizedWeight& b);

}  // namespace reprise::quant
