// The weights of a model under GGUF's names, and back.
#pragma once

#include "convert/gguf_families.h"

#include <reprise/io/safetensors.h>
#include <reprise/model/model.h>
#include "io/gguf/gguf_file.h"
#include "io/gguf/gguf_write.h"

#include <string>
#include <vector>

namespace reprise::convert {

/// Under transformers' names and in its order of rows. Throws if a tensor is missing, unknown, or
/// does not have the shape that `config` implies.
std::vector<LazyTensor> imported_tensors(const io::GgufFile& file,
                                         const ModelConfig& config,
                                         at::ScalarType dtype);

/// `type` is for matrices; vectors and learned positions are F32, as llama.cpp wants them. Rows
/// that are not whole blocks of `type` become F16, with a warning.
std::vector<io::GgufOutput> exported_tensors(const Model& model,
                                             io::GgufType type,
                                             std::vector<std::string>& warnings);

}  // namespace reprise::convert
