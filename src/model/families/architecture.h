// How model families differ besides their numbers: the names and layouts of their weights.
//
// All families share one decoder block; each family's file fills in an Architecture and a
// ModelConfig. Names are paths in checkpoints, so that a module's path is its name there.
#pragma once

#include <reprise/model/config.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

class ConfigReader;

enum class QkvLayout : uint8_t {
  Separate,      ///< three linear layers
  FusedBlocks,   ///< one layer: all queries, then all keys, then all values
  FusedPerHead,  ///< one layer: query, key and value of each head in turn (GPT-NeoX)
};

enum class MlpLayout : uint8_t {
  Gated,       ///< down(act(gate(x)) * up(x))
  GatedFused,  ///< the same, with gate and up in one layer (ChatGLM)
  Plain,       ///< down(act(up(x)))
};

/// Whether a weight is stored (out, in) as in torch.nn.Linear, or (in, out) as in GPT-2's Conv1D.
enum class WeightLayout : uint8_t { OutIn, InOut };

struct Architecture {
  // Paths from the root.
  std::string backbone = "model";
  std::string embedding = "model.embed_tokens";
  std::string positions;  ///< learned positions; empty: none
  std::string blocks = "model.layers";
  std::string final_norm = "model.norm";
  std::string lm_head = "lm_head";
  std::string sequence_head = "score";
  std::string token_head = "score";
  bool sequence_head_has_bias = false;

  // Paths from the block.
  std::string attention_norm = "input_layernorm";
  std::string mlp_norm = "post_attention_layernorm";
  std::string query = "self_attn.q_proj";
  std::string key = "self_attn.k_proj";
  std::string value = "self_attn.v_proj";
  std::string qkv;  ///< in fused layouts, instead of the three above
  std::string attention_output = "self_attn.o_proj";
  std::string query_norm = "self_attn.q_norm";
  std::string key_norm = "self_attn.k_norm";
  std::string gate = "mlp.gate_proj";
  std::string up = "mlp.up_proj";  ///< in GatedFused: gate and up
  std::string down = "mlp.down_proj";

  /// Whether looking up the config's pad id gives its embedding no gradient (padding_idx).
  bool pad_embedding_is_fixed = true;
  QkvLayout qkv_layout = QkvLayout::Separate;
  MlpLayout mlp_layout = MlpLayout::Gated;
  WeightLayout weight_layout = WeightLayout::OutIn;

  /// Ends of names of tensors in old checkpoints that are computed, not learned.
  std::vector<std::string> computed_buffers;
  /// Those of them that the family's own code expects, so that they are saved again.
  std::vector<std::string> carried_buffers;
  /// "Llama", to which ForCausalLM, ForSequenceClassification or ForTokenClassification is added.
  std::string class_prefix;
};

/// The architecture of a config's family.
Architecture architecture_of(const ModelConfig& config);

/// Fill `config` from the fields; throw for values that are not supported. One file per family.
void read_llama(ConfigReader& fields, ModelConfig& config);
void read_mistral(ConfigReader& fields, ModelConfig& config);
void read_qwen2(ConfigReader& fields, ModelConfig& config);
void read_qwen3(ConfigReader& fields, ModelConfig& config);
void read_gpt2(ConfigReader& fields, ModelConfig& config);
void read_gpt_neox(ConfigReader& fields, ModelConfig& config);
void read_chatglm(ConfigReader& fields, ModelConfig& config);

Architecture llama_architecture(const std::string& class_prefix);
Architecture gpt2_architecture();
Architecture gpt_neox_architecture();
Architecture chatglm_architecture();

/// Reads the sizes under transformers' usual names. `default_kv_heads` is the default of the
/// family's class in transformers; 0: as many as heads.
void read_usual_sizes(ConfigReader& fields, ModelConfig& config, int64_t default_kv_heads = 0);
/// Reads the fields that Llama, Mistral and Qwen share: sizes, rotary embedding, activation,
/// epsilon and dropout.
void read_llama_shape(ConfigReader& fields, ModelConfig& config, int64_t default_kv_heads = 0);
/// Reads rotary embedding, under the names of transformers 4 or 5.
void read_rope(ConfigReader& fields, ModelConfig& config, double default_fraction = 1.0);
void read_activation(ConfigReader& fields,
                     ModelConfig& config,
                     const char* name,
                     const char* fallback);
/// Reads what a norm adds to the mean of squares, from 0 to 1.
double read_epsilon(ConfigReader& fields, const char* name, double fallback);
/// Reads windows from layer_types; without it, layers from `first_layer` on have `window` (0:
/// none).
void read_windows(ConfigReader& fields, ModelConfig& config, int64_t window, int64_t first_layer);

}  // namespace reprise
