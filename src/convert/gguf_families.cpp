#include "convert/gguf_families.h"

#include "model/families/architecture.h"

#include <algorithm>
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
constexpr std::span<const GgufSize> kGroupedHeads = std::span(kUsualSizes).first(6);

/// Of two families with one architecture, the first is the one that is imported.
constexpr const char* kRms = "rms_norm_eps";

constexpr std::array<GgufNumber, 2> kSoftcaps = {{
    {"attn_logit_softcapping",
     [](const Config& config) { return config.attention_softcap; },
     "attn_logit_softcapping"},
    {"final_logit_softcapping",
     [](const Config& config) { return config.logit_shape.softcap; },
     "final_logit_softcapping"},
}};

constexpr std::array<GgufNumber, 4> kMultipliers = {{
    {"attention.scale",
     [](const Config& config) { return config.attention_scales.front(); },
     "attention_multiplier"},
    {"embedding_scale",
     [](const Config& config) { return config.embedding_scale; },
     "embedding_multiplier"},
    {"residual_scale",
     [](const Config& config) { return config.residual_scale; },
     "residual_multiplier"},
    {"logit_scale",
     [](const Config& config) { return 1 / config.logit_shape.scale; },
     "logits_scaling"},
}};

constexpr std::array<GgufNumber, 1> kLogitScale = {{
    {"logit_scale", [](const Config& config) { return config.logit_shape.scale; }, "logit_scale"},
}};

/// Of two families with one architecture, the first is the one that is imported.
constexpr std::array<GgufFamily, 18> kFamilies = {{
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
     .epsilon_field = "layer_norm_epsilon",
     .activation = "gelu_new",
     .activation_field = "activation_function"},
    {.model_type = "gpt_neox",
     .architecture = "gptneox",
     .class_name = "GPTNeoXForCausalLM",
     .sizes = kOneHeadEach,
     .epsilon_field = "layer_norm_eps",
     .repeats_tied_head = true,
     .activation = "gelu"},
    {.model_type = "gemma",
     .architecture = "gemma",
     .class_name = "GemmaForCausalLM",
     .sizes = kUsualSizes,
     .epsilon_field = kRms,
     .activation = "gelu_pytorch_tanh",
     .activation_field = "hidden_activation"},
    {.model_type = "gemma2",
     .architecture = "gemma2",
     .class_name = "Gemma2ForCausalLM",
     .sizes = kUsualSizes,
     .epsilon_field = kRms,
     .numbers = kSoftcaps,
     .window_period = 2,
     .activation = "gelu_pytorch_tanh",
     .activation_field = "hidden_activation"},
    {.model_type = "gemma3_text",
     .architecture = "gemma3",
     .class_name = "Gemma3ForCausalLM",
     .sizes = kUsualSizes,
     .epsilon_field = kRms,
     .window_period = 6,
     .activation = "gelu_pytorch_tanh",
     .activation_field = "hidden_activation"},
    {.model_type = "phi3",
     .architecture = "phi3",
     .class_name = "Phi3ForCausalLM",
     .sizes = kUsualSizes,
     .epsilon_field = kRms},
    {.model_type = "smollm3",
     .architecture = "smollm3",
     .class_name = "SmolLM3ForCausalLM",
     .sizes = kUsualSizes,
     .epsilon_field = kRms,
     .rotates_neighbours = true},
    {.model_type = "olmo2",
     .architecture = "olmo2",
     .class_name = "Olmo2ForCausalLM",
     .sizes = kUsualSizes,
     .epsilon_field = kRms},
    {.model_type = "granite",
     .architecture = "granite",
     .class_name = "GraniteForCausalLM",
     .sizes = kUsualSizes,
     .epsilon_field = kRms,
     .rotates_neighbours = true,
     .numbers = kMultipliers},
    {.model_type = "glm4",
     .architecture = "glm4",
     .class_name = "Glm4ForCausalLM",
     .sizes = kUsualSizes,
     .epsilon_field = kRms},
    {.model_type = "cohere2",
     .architecture = "cohere2",
     .class_name = "Cohere2ForCausalLM",
     .sizes = kUsualSizes,
     .epsilon_field = "layer_norm_eps",
     .numbers = kLogitScale,
     .window_period = 4},
    {.model_type = "starcoder2",
     .architecture = "starcoder2",
     .class_name = "Starcoder2ForCausalLM",
     .sizes = kGroupedHeads,
     .epsilon_field = "norm_epsilon",
     .repeats_tied_head = false,
     .activation = "gelu_pytorch_tanh"},
    {.model_type = "stablelm",
     .architecture = "stablelm",
     .class_name = "StableLmForCausalLM",
     .sizes = kGroupedHeads,
     .epsilon_field = "layer_norm_eps",
     .repeats_tied_head = true,
     .activation = "silu"},
    {.model_type = "phi",
     .architecture = "phi2",
     .class_name = "PhiForCausalLM",
     .sizes = kOneHeadEach,
     .epsilon_field = "layer_norm_eps",
     .repeats_tied_head = true,
     .activation = "gelu_new"},
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

bool is(const GgufFamily& family, std::string_view model_type) {
  return family.model_type == model_type;
}

double query_size(const ModelConfig& config) {
  constexpr int64_t kLargestGemma2 = 46, kLargestGemma3 = 62;  // layers
  const bool is_largest = (config.family == "gemma2" && config.layers == kLargestGemma2) ||
                          (config.family == "gemma3_text" && config.layers == kLargestGemma3);
  return static_cast<double>(is_largest ? config.hidden / config.heads : config.head_dim);
}

bool slides(const GgufFamily& family, int64_t layer) {
  return family.window_period > 0 && (layer + 1) % family.window_period != 0;
}

bool is_read(const GgufFamily& family, std::string_view key) {
  const auto is_same = [&](const auto& row) { return key == row.key; };
  return std::any_of(family.sizes.begin(), family.sizes.end(), is_same) ||
         std::any_of(family.numbers.begin(), family.numbers.end(), is_same) ||
         (family.window_period > 0 && key == "attention.sliding_window");
}

bool has_size(const GgufFamily& family, int64_t ModelConfig::*value) {
  return std::any_of(family.sizes.begin(), family.sizes.end(), [&](const GgufSize& size) {
    return size.value == value;
  });
}

const GgufFamily* gguf_family(const ModelConfig& config) {
  for (const GgufFamily& row : kFamilies) {
    if (config.family == row.model_type) {
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
  const RowOrder norm = config.norm_adds_one ? RowOrder::PlusOne : RowOrder::AsStored;
  const std::pair<std::string, GgufPlace> block[] = {
      {names.attention_norm, {"attn_norm", norm}},
      {names.attention_output_norm, {"post_attention_norm", norm}},
      {names.mlp_output_norm, {"post_ffw_norm", norm}},
      {names.query, {"attn_q", rotary, config.heads}},
      {names.key, {"attn_k", rotary, config.kv_heads}},
      {names.value, {"attn_v", linear}},
      {names.qkv, {"attn_qkv", fused, config.heads}},
      {names.query_norm, {"attn_q_norm", norm}},
      {names.key_norm, {"attn_k_norm", norm}},
      {names.attention_output, {"attn_output", linear}},
      {names.mlp_norm, {"ffn_norm", norm}},
      {names.gate, {"ffn_gate", linear}},
      {names.up, {"ffn_up", linear}},
      {names.down, {"ffn_down", linear}},
  };
  std::map<std::string, GgufPlace> places = {{names.embedding, {"token_embd"}},
                                             {names.final_norm, {"output_norm", norm}},
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
