// Converts the tokenizer of a GGUF file to the two files that Hugging Face's libraries read.
#pragma once

#include "io/gguf/gguf_file.h"

#include <string>
#include <vector>

namespace reprise::io {

struct GgufTokenizer {
  Json tokenizer;         ///< tokenizer.json
  Json tokenizer_config;  ///< tokenizer_config.json
};

/// Throws, with its name, for a tokenizer that cannot be rebuilt. Adds assumptions to `warnings`.
GgufTokenizer tokenizer_files(const GgufFile& file, std::vector<std::string>& warnings);

}  // namespace reprise::io
