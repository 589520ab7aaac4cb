#include "convert/gguf_families.h"

#include "model/families/architecture.h"

#include <array>
#include <utility>

namespace reprise::convert {
namespace {

using Config = ModelConfig;

constexpr std::array<GgufSize, 7> kUsualSizes = {{
    {"block_count", &Config::layers, "num_hidden_layers"},
    {"context_length", &Config::max_positions, "max_position_embeddings"},
    {"embedding_length", &Config::hidden, "hidden_size"},
    {"feed_forward_length", &Config::intermediate, "intermediate_size"},
    {"attention.head_count", &Config::heads, "num_attention_heads"},
    {"attention.head_count_kv", &Config::kv_heads, "num_key_value_heads", false},
    {"attention.key_length", &Config::head_dim, "head_dim", false},
}};

constexpr std::array<GgufSize, 5> kGpt2Sizes = {{
    {"block_count", &Config::layers, "n_layer"},
    {"context_length", &Config::max_positions, "n_positions"},
    {"embedding_length", &Config::hidden, "n_embd"},
    {"feed_forward_length", &Config::intermediate, "n_inner"},
    {"attention.head_count", &Config::heads, "n_head"},
}};

constexpr std::span<const GgufSize> kOneHeadEach = std::span(kUsualSizes).first(5);

/// Of two families with one architecture, the first is the one that is imported.
constexpr const char* kRms = "rms_norm_eps";

/// Of two families with one architecture, the first is the one that is imported.
constexpr std::array<GgufFamily, 6> kFamilies = {{
    {.model_type = "llama",
     .architecture = "llama",
     .class_name = "LlamaForCausalLM",
     .sizes = kUsualSizes,
     .epsilon_field = kRms,
     .rotates_neighbours = true},
    {.model_type = "mistral",
     .architecture = "llama",
     .class_name = "MistralForCausalLM",
     .sizes = kUsualSizes,
     .epsilon_field = kRms,
     .rotates_neighbours = true},
    {.model_type = "qwen2",
     .architecture = "qwen2",
     .class_name = "Qwen2ForCausalLM",
     .sizes = kUsualSizes,
     .epsilon_field = kRms},
    {.model_type = "qwen3",
     .architecture = "qwen3",
     .class_name = "Qwen3ForCausalLM",
     .sizes = kUsualSizes,
     .epsilon_field = kRms},
    {.model_type = "gpt2",
     .architecture = "gpt2",
     .class_name = "GPT2LMHeadModel",
     .sizes = kGpt2Sizes,
     .epsilon_field = "layer_norm_epsilon"},
    {.model_type = "gpt_neox",
     .architecture = "gptneox",
     .class_name = "GPTNeoXForCausalLM",
     .sizes = kOneHeadEach,
     .epsilon_field = "layer_norm_eps",
     .repeats_tied_head = true},
}};

std::string joined(const char* (*name)(const GgufFamily&)) {
  std::string names;
  std::string last;
  for (const GgufFamily& family : kFamilies) {
    if (last != name(family)) {
      last = name(family);
      names += (names.empty() ? "" : ", ") + last;
    }
  }
  return names;
}

}  // namespace

std::string model_type_of(const ModelConfig& config) {
  return config.family;
}

const GgufFamily* gguf_family(const ModelConfig& config) {
  for (const GgufFamily& row : kFamilies) {
    if (model_type_of(config) == row.model_type) {
      return &row;
    }
  }
  return nullptr;
}

const GgufFamily* gguf_family_of_architecture(const std::string& architecture) {
  for (const GgufFamily& row : kFamilies) {
    if (row.architecture == architecture) {
      return &row;
    }
  }
  return nullptr;
}

std::string gguf_architectures() {
  return joined([](const GgufFamily& family) { return family.architecture; });
}

std::string gguf_model_types() {
  return joined([](const GgufFamily& family) { return family.model_type; });
}

std::map<std::string, GgufPlace> gguf_places(const ModelConfig& config) {
  const Architecture names = architecture_of(config);
  const GgufFamily& family = *gguf_family(config);
  const RowOrder rotary = family.rotates_neighbours ? RowOrder::RotaryPairs : RowOrder::AsStored;
  const RowOrder linear =
      names.weight_layout == WeightLayout::InOut ? RowOrder::Transposed : RowOrder::AsStored;
  const RowOrder fused =
      names.qkv_layout == QkvLayout::FusedPerGroup ? RowOrder::QkvBlocks : linear;
  const std::pair<std::string, GgufPlace> block[] = {
      {names.attention_norm, {"attn_norm"}},
      {names.query, {"attn_q", rotary, config.heads}},
      {names.key, {"attn_k", rotary, config.kv_heads}},
      {names.value, {"attn_v", linear}},
      {names.qkv, {"attn_qkv", fused, config.heads}},
      {names.query_norm, {"attn_q_norm"}},
      {names.key_norm, {"attn_k_norm"}},
      {names.attention_output, {"attn_output", linear}},
      {names.mlp_norm, {"ffn_norm"}},
      {names.gate, {"ffn_gate", linear}},
      {names.up, {"ffn_up", linear}},
      {names.down, {"ffn_down", linear}},
  };
  std::map<std::string, GgufPlace> places = {{names.embedding, {"token_embd"}},
                                             {names.final_norm, {"output_norm"}},
                                             {names.lm_head, {"output"}}};
  if (!names.positions.empty()) {
    places.emplace(names.positions, GgufPlace{"position_embd"});
  }
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string number = std::to_string(layer) + ".";
    for (const auto& [path, place] : block) {
      if (!path.empty()) {
        GgufPlace placed = place;
        placed.name = "blk." + number + place.name;
        places.emplace(names.blocks + "." + number + path, std::move(placed));
      }
    }
  }
  return places;
}

}  // namespace reprise::convert
