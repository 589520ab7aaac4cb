// Converts models between Hugging Face folders and GGUF files, the format of llama.cpp.
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

struct ConvertReport {
  int64_t tensors = 0;
  int64_t parameters = 0;
  uint64_t bytes = 0;                 ///< import: of the tensors written; export: of the file
  std::vector<std::string> warnings;  ///< what the other format cannot hold
};

/// Writes config.json, generation_config.json, tokenizer.json, tokenizer_config.json and
/// model.safetensors (in shards if large) into `folder`, which is created. config.json is written
/// last, so a folder that has it is complete. Only one tensor is in memory at a time.
///
/// Weights are dequantized and get transformers' names and order of rows. Throws c10::Error naming
/// the key or tensor that is missing, not supported or of the wrong shape.
REPRISE_API ConvertReport import_gguf(const std::filesystem::path& file,
                                      const std::filesystem::path& folder,
                                      const ImportOptions& options = {});

struct ExportOptions {
  /// Of matrices: "f32", "f16", "bf16" or "q8_0"; empty: as in the folder. Vectors are f32.
  std::string type = {};
};

/// Writes the language model of a folder as one file, which appears under its name only when it is
/// complete. Weights are mapped and converted piece by piece. Throws c10::Error naming the family
/// or the part that GGUF or llama.cpp lacks.
REPRISE_API ConvertReport export_gguf(const std::filesystem::path& folder,
                                      const std::filesystem::path& file,
                                      const ExportOptions& options = {});

}  // namespace reprise
