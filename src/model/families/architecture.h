// How model families differ besides their numbers: the names and layouts of their weights.
//
// All families share one decoder block, which tests no family; each family's file fills in an
// Architecture and a ModelConfig. Names are paths in checkpoints, so that a module's path is its
// name there.
#pragma once

#include <reprise/model/config.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

enum class QkvLayout : uint8_t {
  Separate,       ///< three linear layers
  FusedBlocks,    ///< one layer: all queries, then all keys, then all values
  FusedPerGroup,  ///< one layer: of each key/value head in turn, its queries, key and value
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
  std::string embedding_norm;        ///< of embeddings; empty: none
  std::string embedding_projection;  ///< this and the next are for ModelConfig::embedding_width
  std::string output_projection;     ///< of what the last norm gives
  std::string positions;             ///< learned positions; empty: none
  std::string blocks = "model.layers";
  std::string final_norm = "model.norm";
  std::string lm_head = "lm_head";
  std::string sequence_head = "score";
  std::string token_head = "score";
  bool sequence_head_has_bias = false;

  // Paths from the block. Norms stand before attention and MLP, after them (on what is added to the
  // residual), or both; an empty path: there is none. Where both run in parallel and the MLP has no
  // norm before it, it reads what attention reads.
  std::string attention_norm = "input_layernorm";
  std::string mlp_norm = "post_attention_layernorm";
  std::string attention_output_norm;
  std::string mlp_output_norm;
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
  /// The names of its classes in transformers: "Llama" and what follows it.
  std::string class_prefix;
  std::string causal_class = "ForCausalLM";
  std::string sequence_class = "ForSequenceClassification";
  std::string token_class = "ForTokenClassification";
  /// Whether a language model is saved under the class that its config.json names.
  bool keeps_class = false;
  /// Ends of the names of layers that write to the residual, whose first values are scaled down by
  /// their number (GPT-2); empty: none.
  std::string scaled_at_first;
};

/// The architecture of a config's family.
Architecture architecture_of(const ModelConfig& config);

}  // namespace reprise
