// Models whose linear layers are quantised, as bitsandbytes does it: a base for LoRA adapters that
// takes a quarter of the memory (QLoRA).
//
//   const auto [model, warnings] =
//       reprise::load_model(folder, {.quantization = QuantizationConfig{}});  // nf4
//   reprise::add_lora(*model, config, /*seed=*/0);
//
// A quantised weight is no parameter: it has no gradient, and cannot be trained. Everything else is
// as it was, embeddings, norms, biases and the head. Results are the same to the last bit with and
// without checkpointing, as with other models.
#pragma once

#include <reprise/export.h>
#include <reprise/model/model.h>
#include <reprise/model/quantization_config.h>

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

/// Quantises every linear layer except the head and `skip_modules`, one after the other. Throws if
/// the model is quantised already, has adapters or is sharded, and if a name in skip_modules
/// matches no layer.
REPRISE_API void quantize_model(Model& model, const QuantizationConfig& config);

/// Makes parameters of this type out of all quantised weights, for merging adapters. They are
/// frozen if the model has adapters.
REPRISE_API void dequantize_model(Model& model, at::ScalarType type);

REPRISE_API bool is_quantized(const Model& model);
/// The paths of the quantised layers.
REPRISE_API std::vector<std::string> quantized_layers(const Model& model);

/// Bytes of all quantised weights with their scales.
REPRISE_API int64_t quantized_bytes(const Model& model);
/// Numbers that the quantised weights stand for.
REPRISE_API int64_t quantized_count(const Model& model);

}  // namespace reprise
