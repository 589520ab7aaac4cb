// What GGUF calls the families of models and their parts: one table for import and export.
//
// A row names the architecture, the numbers of config.json that are keys of the file, and how
// llama.cpp orders the rows of a weight. The names of weights follow from the part that they play
// (Architecture), which is the same for all families.
#pragma once

#include <reprise/export.h>
#include <reprise/model/config.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace reprise::convert {

/// A whole number: its key without "<architecture>.", and its field of config.json.
struct GgufSize {
  const char* key;
  int64_t ModelConfig::*value;
  const char* field;
  bool is_required = true;
};

struct GgufFamily {
  const char* model_type;  ///< in transformers
  const char* architecture;
  const char* class_name;  ///< in config.json
  std::span<const GgufSize> sizes;
  const char* epsilon_field;
  bool rotates_neighbours = false;  ///< see Note [Rotary order of rows]
  bool repeats_tied_head = false;  ///< llama.cpp wants output.weight also where it is the embedding
};

/// Null for a family that GGUF lacks, or an architecture that is not known here.
const GgufFamily* gguf_family(const ModelConfig& config);
const GgufFamily* gguf_family_of_architecture(const std::string& architecture);
/// The model_type of a config.
std::string model_type_of(const ModelConfig& config);
/// "llama, qwen2, …", for messages.
std::string gguf_architectures();
std::string gguf_model_types();

enum class RowOrder : uint8_t {
  AsStored,
  RotaryPairs,  ///< Note [Rotary order of rows]
  QkvBlocks,   ///< transformers: query, key and value of each head in turn; GGUF: all queries first
  Transposed,  ///< transformers: (in, out); GGUF: (out, in)
};

struct GgufPlace {
  std::string name;  ///< without ".weight" or ".bias"
  RowOrder order = RowOrder::AsStored;
  int64_t heads = 0;  ///< of RotaryPairs and QkvBlocks
};

/// The modules with parameters of a model with a CausalLm head, by their path in transformers.
std::map<std::string, GgufPlace> gguf_places(const ModelConfig& config);

}  // namespace reprise::convert
