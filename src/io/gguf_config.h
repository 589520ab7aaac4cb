// The sizes of a llama model in a GGUF file, and the config.json that says the same.
#pragma once

#include "io/gguf_fields.h"

#include <reprise/io/gguf.h>

#include <c10/core/ScalarType.h>

#include <string>
#include <vector>

namespace reprise::detail {

struct LlamaSizes {
  int64_t layers;
  int64_t hidden;
  int64_t intermediate;
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;
  int64_t vocabulary;
};

/// Throws for a file of another architecture, and for keys that mean another model than llama.
LlamaSizes llama_sizes(const GgufFile& file);

/// `warnings` gets the keys that have no counterpart.
Json llama_config(const GgufFile& file,
                  const LlamaSizes& sizes,
                  at::ScalarType dtype,
                  std::vector<std::string>& warnings);

Json generation_config(const GgufFile& file);

}  // namespace reprise::detail
