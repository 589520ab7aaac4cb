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
#include <string_view>

namespace reprise::convert {

/// A whole number: its key without "<architecture>.", and its field of config.json.
struct GgufSize {
  const char* key;
  int64_t ModelConfig::*value;
  const char* field;
  bool is_required = true;
};

/// Another number, as config.json says it.
struct GgufNumber {
  const char* key;
  double (*value)(const ModelConfig& config);
  const char* field;
};

struct GgufFamily {
  const char* model_type;  ///< in transformers
  const char* architecture;
  const char* class_name;  ///< in config.json
  std::span<const GgufSize> sizes;
  const char* epsilon_field;
  bool rotates_neighbours = false;  ///< see Note [Rotary order of rows]
  bool repeats_tied_head = false;  ///< llama.cpp wants output.weight also where it is the embedding
  std::span<const GgufNumber> numbers = {};
  /// All layers but every n-th have a window, as llama.cpp has it for this architecture; 0: none.
  int64_t window_period = 0;
  const char* activation = "silu";
  const char* activation_field = "hidden_act";
};

bool is(const GgufFamily& family, std::string_view model_type);
/// llama.cpp scales scores by the root of this: a head's size, but for the largest Gemma models.
double query_size(const ModelConfig& config);
/// Whether a layer has a window, in llama.cpp.
bool slides(const GgufFamily& family, int64_t layer);
/// Whether the key without the architecture is one of the rows of the family.
bool is_read(const GgufFamily& family, std::string_view key);
bool has_size(const GgufFamily& family, int64_t ModelConfig::*value);

/// Null for a family that GGUF lacks, or an architecture that is not known here.
const GgufFamily* gguf_family(const ModelConfig& config);
const GgufFamily* gguf_family_of_architecture(const std::string& architecture);
/// "llama, qwen2, …", for messages.
std::string gguf_architectures();
std::string gguf_model_types();

enum class RowOrder : uint8_t {
  AsStored,
  RotaryPairs,  ///< Note [Rotary order of rows]
  QkvBlocks,   ///< transformers: query, key and value of each head in turn; GGUF: all queries first
  Transposed,  ///< transformers: (in, out); GGUF: (out, in)
  PlusOne,     ///< a norm's weight, which transformers stores less 1
};

struct GgufPlace {
  std::string name;  ///< without ".weight" or ".bias"
  RowOrder order = RowOrder::AsStored;
  int64_t heads = 0;  ///< of RotaryPairs and QkvBlocks
};

/// The modules with parameters of a model with a CausalLm head, by their path in transformers.
std::map<std::string, GgufPlace> gguf_places(const ModelConfig& config);

}  // namespace reprise::convert
