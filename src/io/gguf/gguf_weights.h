// The tensors of a llama model in a GGUF file, with transformers' names and order of rows.
#pragma once

#include "io/gguf/gguf_config.h"

#include <reprise/io/safetensors.h>
#include "io/gguf/gguf_file.h"

#include <vector>

namespace reprise::io {

/// Throws if a tensor is missing, unknown, or does not have the shape that `sizes` implies.
std::vector<LazyTensor> llama_weights(const GgufFile& file,
                                      const LlamaSizes& sizes,
                                      at::ScalarType dtype);

}  // namespace reprise::io
