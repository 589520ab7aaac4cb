// Loading the linear layers of a quantised model, one after the other: those that the checkpoint
// has quantised, and those that are quantised now. At most one layer is in memory unquantised.
#pragma once

#include "model/quantization/stored_weight.h"

#include <reprise/model/quantization.h>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace reprise {

struct QuantizedLoad {
  QuantizationConfig config;
  bool is_stored = false;             ///< the checkpoint is quantised; otherwise quantise now
  at::ScalarType dtype = at::kFloat;  ///< that weights are converted to before they are quantised
  at::Device device = at::kCPU;
};

/// Fills the quantised layers of a model whose parameters are on the meta device. Tensors that it
/// reads are taken from the store.
void load_quantized_layers(Model& model, NamedStore& store, const QuantizedLoad& load);

}  // namespace reprise
