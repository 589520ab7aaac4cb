// The tensors of a llama model in a GGUF file, under the names and in the order of rows that
// transformers uses.
#pragma once

#include "io/gguf_config.h"

#include <reprise/io/gguf.h>
#include <reprise/io/safetensors.h>

#include <vector>

namespace reprise::detail {

/// Throws if a tensor is missing, unknown or of another shape than `sizes` say.
std::vector<LazyTensor> llama_weights(const GgufFile& file,
                                      const LlamaSizes& sizes,
                                      at::ScalarType dtype);

}  // namespace reprise::detail
