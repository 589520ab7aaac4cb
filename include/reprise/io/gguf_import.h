// A GGUF file as a Hugging Face folder: the way from llama.cpp's models to a model that is trained.
#pragma once

#include <reprise/export.h>

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace reprise {

struct ImportOptions {
  at::ScalarType dtype = at::kFloat;  ///< of the weights written: kFloat, kBFloat16 or kHalf
};

struct ImportReport {
  int64_t tensors = 0;
  int64_t parameters = 0;
  uint64_t bytes = 0;                 ///< of the tensors as written
  std::vector<std::string> warnings;  ///< what the file says and the folder cannot
};

/// Writes config.json, generation_config.json, tokenizer.json, tokenizer_config.json and
/// model.safetensors (sharded when large) into `folder`, which is created; config.json comes last,
/// so that a folder that has it is whole. One tensor is in memory at a time.
///
/// The file's architecture must be "llama". Its weights are dequantized, and the rows of the query
/// and key projections are put back in the order that transformers uses. Throws c10::Error naming
/// the key or tensor that is missing, not supported or of the wrong shape.
REPRISE_API ImportReport import_gguf(const std::filesystem::path& file,
                                     const std::filesystem::path& folder,
                                     const ImportOptions& options = {});

}  // namespace reprise
