// The sizes of a llama model in a GGUF file, and the equivalent config.json.
#pragma once

#include "io/gguf/gguf_fields.h"

#include "io/gguf/gguf_file.h"

#include <c10/core/ScalarType.h>

#include <string>
#include <vector>

namespace reprise::io {

struct LlamaSizes {
  int64_t layers;
  int64_t hidden;
  int64_t intermediate;
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;
  int64_t vocabulary;
};

/// Throws for another architecture, and for keys that a plain llama model does not have.
LlamaSizes llama_sizes(const GgufFile& file);

/// Adds the keys that have no counterpart in config.json to `warnings`.
Json llama_config(const GgufFile& file,
                  const LlamaSizes& sizes,
                  at::ScalarType dtype,
                  std::vector<std::string>& warnings);

Json generation_config(const GgufFile& file);

}  // namespace reprise::io
