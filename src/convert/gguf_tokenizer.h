// The tokenizer of a GGUF file, and the files that Hugging Face's libraries read.
#pragma once

#include <reprise/io/json.h>
#include "io/gguf/gguf_file.h"
#include "io/gguf/gguf_write.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace reprise::convert {

struct GgufTokenizer {
  Json tokenizer;         ///< tokenizer.json; null if the file has none
  Json tokenizer_config;  ///< tokenizer_config.json
};

/// Throws, with its name, for a tokenizer that cannot be rebuilt. Adds assumptions to `warnings`.
GgufTokenizer imported_tokenizer(const io::GgufFile& file, std::vector<std::string>& warnings);

/// The keys of the tokenizer of a model's folder with `vocabulary` ids, as llama.cpp's converter
/// writes them. Throws for a tokenizer that llama.cpp would read differently, naming what differs.
io::GgufValues exported_tokenizer(const std::filesystem::path& folder,
                                  int64_t vocabulary,
                                  std::vector<std::string>& warnings);

}  // namespace reprise::convert
