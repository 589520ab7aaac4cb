// Converts a GGUF file, llama.cpp's format, to a Hugging Face folder that can be trained.
#pragma once

#include <reprise/export.h>

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace reprise {

struct ImportOptions {
  at::ScalarType dtype = at::kFloat;  ///< dtype to write: kFloat, kBFloat16 or kHalf
};

struct ImportReport {
  int64_t tensors = 0;
  int64_t parameters = 0;
  uint64_t bytes = 0;                 ///< bytes of the tensors written
  std::vector<std::string> warnings;  ///< information of the file that the folder cannot hold
};

/// Writes config.json, generation_config.json, tokenizer.json, tokenizer_config.json and
/// model.safetensors (in shards if large) into `folder`, which is created. config.json is written
/// last, so a folder that has it is complete. Only one tensor is in memory at a time.
///
/// The file's architecture must be "llama". Weights are dequantized, and the rows of the query and
/// key projections are reordered as transformers expects. Throws c10::Error naming the key or
/// tensor that is missing, not supported or of the wrong shape.
REPRISE_API ImportReport import_gguf(const std::filesystem::path& file,
                                     const std::filesystem::path& folder,
                                     const ImportOptions& options = {});

}  // namespace reprise
