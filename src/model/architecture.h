// What distinguishes the families beyond numbers: how their weights are called and laid out.
//
// Every family is the same decoder block; a family file fills in one of these and a ModelConfig.
// Names are paths as they stand in checkpoints, so that a module's path is its checkpoint name.
#pragma once

#include <reprise/model/config.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

class ConfigReader;

enum class QkvLayout : uint8_t {
  Separate,      ///< three projections
  FusedBlocks,   ///< one, whose outputs are all queries, then all keys, then all values
  FusedPerHead,  ///< one, whose outputs are query, key and value of each head in turn (GPT-NeoX)
};

enum class MlpLayout : uint8_t {
  Gated,       ///< down(act(gate(x)) * up(x))
  GatedFused,  ///< the same, with gate and up in one projection (ChatGLM)
  Plain,       ///< down(act(up(x)))
};

/// Whether a projection's weight is (out, in) as in torch.nn.Linear, or (in, out) as GPT-2's
/// Conv1D.
enum class WeightLayout : uint8_t { OutIn, InOut };

struct Architecture {
  // Paths from the root.
  std::string backbone = "model";
  std::string embedding = "model.embed_tokens";
  std::string positions;  ///< learned positions; empty: the model has none
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
  std::string qkv;  ///< fused layouts
  std::string attention_output = "self_attn.o_proj";
  std::string query_norm = "self_attn.q_norm";
  std::string key_norm = "self_attn.k_norm";
  std::string gate = "mlp.gate_proj";
  std::string up = "mlp.up_proj";  ///< with GatedFused: both
  std::string down = "mlp.down_proj";

  QkvLayout qkv_layout = QkvLayout::Separate;
  MlpLayout mlp_layout = MlpLayout::Gated;
  WeightLayout weight_layout = WeightLayout::OutIn;

  /// Ends of tensor names that old checkpoints hold but that are computed, not learned.
  std::vector<std::string> computed_buffers;
  /// Those among them that the family's own code expects to find, so that an export keeps them.
  std::vector<std::string> carried_buffers;
  /// "Llama", to which ForCausalLM, ForSequenceClassification or ForTokenClassification is added.
  std::string class_prefix;
};

/// The architecture of a config's family.
Architecture architecture_of(const ModelConfig& config);

/// Family files: fill `config` from the fields, refusing values that are not supported.
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

/// Shared by the families above: sizes under transformers' usual names, and rotary embedding in
/// either spelling.
/// `default_kv_heads` is the class's own, where a file says nothing; 0: as many as heads.
void read_usual_sizes(ConfigReader& fields, ModelConfig& config, int64_t default_kv_heads = 0);
/// What Llama, Mistral and Qwen spell alike: the sizes, rotary embedding, activation, epsilon and
/// dropout.
void read_llama_shape(ConfigReader& fields, ModelConfig& config, int64_t default_kv_heads = 0);
void read_rope(ConfigReader& fields, ModelConfig& config, double default_fraction = 1.0);
void read_activation(ConfigReader& fields,
                     ModelConfig& config,
                     const char* name,
                     const char* fallback);
/// layer_types if given, else `window` (0: none) on the layers from `first_layer` on.
void read_windows(ConfigReader& fields, ModelConfig& config, int64_t window, int64_t first_layer);

}  // namespace reprise
