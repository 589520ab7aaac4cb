// The tokenizer in a GGUF file as the two files that Hugging Face's libraries read.
#pragma once

#include <reprise/io/gguf.h>

#include <string>
#include <vector>

namespace reprise::detail {

struct GgufTokenizer {
  Json tokenizer;         ///< tokenizer.json
  Json tokenizer_config;  ///< tokenizer_config.json
};

/// Throws for a tokenizer that cannot be rebuilt, by its name. `warnings` gets what was assumed.
GgufTokenizer tokenizer_files(const GgufFile& file, std::vector<std::string>& warnings);

}  // namespace reprise::detail
