// config.json: both spellings mean the same, and what is not supported is refused by name.
#include "support/bitwise.h"
#include "support/fixtures.h"

#include <reprise/model/config.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::message_of;

Json llama() {
  return read_json(testing::fixtures() / "models" / "llama_untied" / "config.json");
}

std::string refusal_of(const std::string& field, const Json& value) {
  Json json = llama();
  json[field] = value;
  return message_of<c10::Error>([&] { ModelConfig::from_json(json, "config.json"); });
}

void expect_same(const ModelConfig& a, const ModelConfig& b) {
  EXPECT_EQ(a.rope.theta, b.rope.theta);
  EXPECT_EQ(a.rope.dims, b.rope.dims);
  EXPECT_EQ(a.rope.scaling, b.rope.scaling);
  EXPECT_EQ(a.rope.factor, b.rope.factor);
  EXPECT_EQ(a.rope.original_positions, b.rope.original_positions);
  EXPECT_EQ(a.rope.attention_factor, b.rope.attention_factor);
  EXPECT_EQ(a.rope.fast_rotations, b.rope.fast_rotations);
  EXPECT_EQ(a.rope.slow_rotations, b.rope.slow_rotations);
  EXPECT_EQ(a.rope.has_whole_bounds, b.rope.has_whole_bounds);
  EXPECT_EQ(a.rope.long_factors, b.rope.long_factors);
  EXPECT_EQ(a.rope.turning_dims, b.rope.turning_dims);
  for (int64_t layer = 0; layer < a.layers; ++layer) {
    EXPECT_EQ(a.rope_of(layer), b.rope_of(layer)) << layer;
  }
  EXPECT_EQ(a.windows, b.windows);
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_EQ(a.tied_head, b.tied_head);
  EXPECT_EQ(a.eos_ids, b.eos_ids);
  EXPECT_EQ(a.head_dim, b.head_dim);
}

TEST(ConfigSpelling, OfTransformersFourAndFiveMeansTheSame) {
  size_t pairs = 0;
  for (const auto& entry : fs::directory_iterator(testing::fixtures() / "models")) {
    for (const char* other : {"config.transformers4.json", "config.transformers5.json"}) {
      if (fs::exists(entry.path() / other)) {
        SCOPED_TRACE(entry.path().filename().string());
        expect_same(ModelConfig::read(entry.path()),
                    ModelConfig::from_json(read_json(entry.path() / other), other));
        ++pairs;
      }
    }
  }
  EXPECT_GE(pairs, 12U);
}

TEST(ConfigRefusals, NameTheFieldWhatIsExpectedAndWhatWasFound) {
  EXPECT_TRUE(contains(refusal_of("model_type", "mamba"), "expected one of "));
  EXPECT_TRUE(contains(refusal_of("model_type", "mamba"), "found \"mamba\""));
  EXPECT_TRUE(contains(refusal_of("hidden_act", "swiglu"), "hidden_act: expected silu"));
  EXPECT_TRUE(contains(refusal_of("hidden_size", -4), "hidden_size: expected a positive integer"));
  EXPECT_TRUE(contains(refusal_of("hidden_size", "16"), "found \"16\""));
  EXPECT_TRUE(contains(refusal_of("hidden_size", nullptr), "hidden_size is missing"));
  EXPECT_TRUE(contains(refusal_of("num_key_value_heads", 3), "cannot share 3"));
  EXPECT_TRUE(
      contains(refusal_of("rope_parameters", {{"rope_type", "axial"}, {"factor", 2.0}}),
               "expected default, linear, dynamic, yarn, longrope, llama3 or proportional"));
  EXPECT_TRUE(contains(refusal_of("rope_parameters", {{"rope_type", "yarn"}, {"factor", 0.5}}),
                       "factor: expected a number from 1"));
  EXPECT_TRUE(contains(
      refusal_of("rope_parameters",
                 {{"rope_type", "yarn"}, {"factor", 2.0}, {"beta_fast", 1.0}, {"beta_slow", 2.0}}),
      "beta_fast: expected at least beta_slow"));
  EXPECT_TRUE(contains(
      refusal_of("rope_parameters", {{"rope_type", "longrope"}, {"short_factor", {1.0, 1.0, 1.0}}}),
      "short_factor: expected an array of 2 numbers above 0"));
  EXPECT_TRUE(contains(refusal_of("dtype", "int8"), "float32, bfloat16 or float16"));
  EXPECT_TRUE(contains(refusal_of("quantization_config", {{"bits", 4}}), "quantization_config"));
  EXPECT_TRUE(contains(refusal_of("attention_dropout", 1.5), "a probability below 1"));
  EXPECT_TRUE(
      contains(message_of<c10::Error>([] { ModelConfig::from_json(Json::array(), "config.json"); }),
               "expected an object, found an array"));
}

TEST(ConfigRefusals, KeepSizesInBounds) {
  EXPECT_TRUE(contains(refusal_of("num_hidden_layers", 2147483648), "num_hidden_layers: expected"));
  EXPECT_TRUE(contains(refusal_of("num_hidden_layers", 100000), "at most 16384 layers"));
  EXPECT_TRUE(contains(refusal_of("vocab_size", int64_t{1} << 40), "vocab_size: expected"));
  Json json = llama();
  json["hidden_size"] = 4;
  json["num_attention_heads"] = 8;
  json.erase("head_dim");
  EXPECT_TRUE(contains(message_of<c10::Error>([&] { ModelConfig::from_json(json, "c"); }),
                       "cannot be split into 8 attention heads"));
  json = read_json(testing::fixtures() / "models" / "qwen2" / "config.json");
  json.erase("layer_types");
  for (const Json& layers : {Json(-1), Json(-1e6), Json(1e300)}) {
    json["max_window_layers"] = layers;
    EXPECT_TRUE(contains(message_of<c10::Error>([&] { ModelConfig::from_json(json, "c"); }),
                         "max_window_layers"));
  }
}

TEST(ConfigRefusals, CoverRotaryParametersByKindOfLayer) {
  const Json nested = {{"full_attention", {{"rope_type", "yarn"}}}};
  EXPECT_TRUE(contains(refusal_of("rope_parameters", nested), "one set of parameters"));
}

struct Refused {
  const char* model;
  const char* field;
  Json value;  // null: the field is removed
  const char* message;
};

TEST(ConfigRefusals, NameWhatContradictsOrIsNotSupportedInEachFamily) {
  const Json flat = {{"rope_type", "default"}, {"rope_theta", 10.0}};
  const Refused cases[] = {
      {"gemma", "use_bidirectional_attention", true, "only causal attention"},
      {"gemma", "hidden_activation", "relu", "expected gelu_pytorch_tanh"},
      {"gemma2", "attn_logit_softcapping", 0, "attn_logit_softcapping: expected a number above 0"},
      {"gemma2", "final_logit_softcapping", -1.5, "final_logit_softcapping: expected a number"},
      {"gemma2", "query_pre_attn_scalar", 0, "query_pre_attn_scalar: expected a number above 0"},
      {"gemma2", "num_key_value_heads", 3, "4 attention heads cannot share 3"},
      {"gemma2", "layer_types", Json::array({"full_attention"}), "an entry for each of 2 layers"},
      {"gemma2",
       "layer_types",
       Json::array({"full_attention", "linear_attention"}),
       "expected full_attention or sliding_attention, found \"linear_attention\""},
      {"gemma3", "attn_logit_softcapping", 5.0, "attn_logit_softcapping: expected null"},
      {"gemma3", "rope_local_base_freq", -1, "rope_theta: expected a positive number"},
      {"gemma3", "rope_parameters", flat, "one set of parameters each"},
      {"gemma3", "sliding_window_pattern", 0, "sliding_window_pattern"},
      {"phi3", "rope_scaling", {{"rope_type", "yarn"}, {"factor", 2.0}}, "default or longrope"},
      {"phi3", "rope_scaling", {{"rope_type", "spiral"}}, "rope_type: expected default, linear"},
      {"smollm3", "no_rope_layers", Json::array({1}), "no_rope_layers: expected an array"},
      {"smollm3", "no_rope_layers", Json::array({1, 2}), "no_rope_layers: expected an array"},
      {"olmo3", "rope_parameters", flat, "one set of parameters each"},
      {"granite", "residual_multiplier", -0.5, "residual_multiplier: expected a number above 0"},
      {"granite", "logits_scaling", 0, "logits_scaling: expected a number above 0"},
      {"cohere", "use_qk_norm", true, "use_qk_norm: expected false"},
      {"cohere2", "logit_scale", "x", "logit_scale: expected a number above 0"},
      {"ministral", "sliding_window", nullptr, "sliding_attention and a sliding_window"},
      {"ministral3", "rope_parameters", nullptr, "rope_parameters: expected an object"},
      {"llama",
       "rope_scaling",
       {{"rope_type", "linear"}, {"factor", 2.0}, {"llama_4_scaling_beta", 0.1}},
       "llama_4_scaling_beta: expected none for this model_type"}};
  for (const auto& refused : cases) {
    Json json = read_json(testing::fixtures() / "models" / refused.model / "config.json");
    json[refused.field] = refused.value;
    const auto message =
        message_of<c10::Error>([&] { ModelConfig::from_json(json, "config.json"); });
    EXPECT_TRUE(contains(message, "config.json")) << refused.model << ": " << message;
    EXPECT_TRUE(contains(message, refused.message)) << refused.model << ": " << message;
  }
}

TEST(Config, ReadsWhatDiffersByLayer) {
  const auto read = [](const char* name) {
    return ModelConfig::read(testing::fixtures() / "models" / name);
  };
  const auto gemma3 = read("gemma3");
  EXPECT_EQ(gemma3.windows, (std::vector<int64_t>{4, 0}));
  EXPECT_EQ(gemma3.rope_of(0).theta, 10);
  EXPECT_EQ(gemma3.rope_of(0).factor, 1);
  EXPECT_EQ(gemma3.rope_of(1).theta, 100);
  EXPECT_EQ(gemma3.rope_of(1).factor, 4);
  const auto smollm3 = read("smollm3");
  EXPECT_EQ(smollm3.rope_of(0).dims, 4);
  EXPECT_EQ(smollm3.rope_of(1).dims, 0);
  const auto olmo3 = read("olmo3");
  EXPECT_EQ(olmo3.rope_of(0).scaling, RopeConfig::Scaling::None);
  EXPECT_EQ(olmo3.rope_of(1).scaling, RopeConfig::Scaling::Yarn);
}

TEST(ConfigRefusals, CoverWhatChatGlmHasInTwoMeanings) {
  Json json = read_json(testing::fixtures() / "models" / "chatglm2" / "config.json");
  const auto read = [&] { return ModelConfig::from_json(json, "c"); };
  const auto refusal = [&] { return message_of<c10::Error>([&] { read(); }); };
  json["rope_ratio"] = 50;
  EXPECT_TRUE(contains(refusal(), "rope_ratio: expected 1, or beside it what it means"));
  EXPECT_TRUE(contains(refusal(), "\"rope_theta\": 500000"));
  json["rope_theta"] = 500000;
  EXPECT_EQ(read().rope.theta, 500000);
  EXPECT_EQ(read().rope.scaling, RopeConfig::Scaling::None);
  json["rope_theta"] = 10000;
  EXPECT_TRUE(contains(refusal(), "rope_ratio"));
  json["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 50}};
  EXPECT_EQ(read().rope.factor, 50);
  EXPECT_EQ(read().rope.theta, 10000);
  EXPECT_EQ(read().rope.dims, read().head_dim / 2);
  json["rope_scaling"]["factor"] = 4;
  EXPECT_TRUE(contains(refusal(), "rope_ratio"));
}

TEST(ConfigRefusals, OfClassicFamiliesNameTheField) {
  const auto refusal = [](const char* model, const char* field, const Json& value) {
    Json json = read_json(testing::fixtures() / "models" / model / "config.json");
    json[field] = value;
    return message_of<c10::Error>([&] { ModelConfig::from_json(json, "config.json"); });
  };
  const Json twice = Json::array({Json::array({Json::array({"global", "local"}), 2})});
  const Json odd = Json::array({Json::array({Json::array({"global", "dilated"}), 1})});
  const Json often = Json::array({Json::array({Json::array({"global"}), 1e9})});
  struct Refused {
    const char* model;
    const char* field;
    Json value;
    const char* message;
  };
  const Refused cases[] = {
      {"phi", "tie_word_embeddings", true, "tie_word_embeddings: expected false"},
      {"gptj", "tie_word_embeddings", true, "tie_word_embeddings: expected false"},
      {"gptj", "rotary_dim", nullptr, "rotary_dim: expected a positive integer"},
      {"gptj", "rotary_dim", 3, "it needs an even number"},
      {"gptj", "rotary_dim", 12, "rotary embedding over 12 dimensions of a head of 8"},
      {"gptj", "scale_attn_weights", false, "scale_attn_weights: expected true"},
      {"falcon", "parallel_attn", "yes", "parallel_attn: expected true or false"},
      {"falcon", "num_ln_in_parallel_attn", 2, "expected 1 without new_decoder_architecture"},
      {"falcon", "n_embed", 32, "hidden_size: expected 32, which is n_embed, found 16"},
      {"falcon_grouped", "parallel_attn", false, "expected true with new_decoder_architecture"},
      {"falcon_grouped", "num_ln_in_parallel_attn", 3, "expected 1 or 2"},
      {"falcon_grouped", "num_kv_heads", 3, "4 attention heads cannot share 3"},
      {"falcon_alibi", "num_kv_heads", 3, "num_kv_heads: expected 9, since neither"},
      {"bloom", "n_inner", 20, "n_inner: expected 48, four times the width, found 20"},
      {"bloom", "hidden_size", 16, "hidden_size: expected 12, which is n_embed, found 16"},
      {"bloom", "attention_dropout", 1, "attention dropout: expected a probability below 1"},
      {"opt", "layerdrop", 0.1, "layerdrop: expected 0.0 (no other value is supported)"},
      {"opt", "word_embed_proj_dim", 0, "word_embed_proj_dim: expected a positive integer"},
      {"opt", "init_std", -1, "init_std: expected a number from 0"},
      {"opt", "activation_function", "selu", "relu or relu2"},
      {"gpt_neo", "attention_types", twice, "attention_types: expected types of 2 layers"},
      {"gpt_neo", "attention_types", odd, "attention_types: expected global or local"},
      {"gpt_neo", "attention_types", often, "attention_types: expected entries such as"},
      {"gpt_neo", "attention_types", "global", "attention_types: expected an array"},
      {"gpt_neo", "attention_layers", Json::array({"local"}), "what attention_types says"},
      {"gpt_neo", "window_size", 0, "window_size: expected a positive integer"},
      {"stablelm", "hidden_dropout", 2, "residual dropout: expected a probability below 1"},
      {"starcoder2", "norm_type", "rms_norm", "norm_type: expected \"layer_norm\""},
      {"nemotron", "hidden_act", "relu3", "hidden_act: expected silu"},
      {"gpt_bigcode", "num_key_value_heads", 2, "what multi_query says"}};
  for (const auto& [model, field, value, message] : cases) {
    const auto found = refusal(model, field, value);
    EXPECT_TRUE(contains(found, "[config] config.json: ")) << model << ": " << found;
    EXPECT_TRUE(contains(found, message)) << model << ": " << found;
  }
}

TEST(ConfigDefaults, OfDropoutAreThoseOfEachClassicFamily) {
  const auto read = [](const char* model, const Json& changes) {
    Json json = read_json(testing::fixtures() / "models" / model / "config.json");
    json.update(changes);
    return ModelConfig::from_json(json, "config.json");
  };
  // Falcon drops the sum of parallel branches, and attention's probabilities only with ALiBi.
  const Json dropout = {{"hidden_dropout", 0.2}, {"attention_dropout", 0.3}};
  const auto parallel = read("falcon", dropout);
  EXPECT_TRUE(parallel.drops_sum);
  EXPECT_EQ(parallel.residual_dropout, 0.2);
  EXPECT_EQ(parallel.attention_dropout, 0);
  const auto sequential = read("falcon_alibi", dropout);
  EXPECT_FALSE(sequential.drops_sum);
  EXPECT_EQ(sequential.attention_dropout, 0.3);
  EXPECT_EQ(sequential.attention_residual_dropout, 0.3);
  EXPECT_EQ(read("stablelm", dropout).attention_residual_dropout, 0);
  EXPECT_FALSE(read("bloom", dropout).attention_residual_dropout);
  EXPECT_EQ(read("opt", {{"dropout", 0.4}}).residual_dropout, 0.4);
}

TEST(ConfigWarnings, AreGivenForUnknownFieldsOnly) {
  EXPECT_TRUE(ModelConfig::from_json(llama(), "config.json").warnings.empty());
  Json json = llama();
  json["moe_router_bias"] = 3;
  const auto warnings = ModelConfig::from_json(json, "config.json").warnings;
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(contains(warnings.front(), "moe_router_bias"));
}

TEST(ConfigDefaults, OfAWindowDifferFromNone) {
  Json json = read_json(testing::fixtures() / "models" / "mistral" / "config.json");
  json["sliding_window"] = nullptr;
  EXPECT_EQ(ModelConfig::from_json(json, "c").windows.front(), 0);
  json.erase("sliding_window");
  EXPECT_EQ(ModelConfig::from_json(json, "c").windows.front(), 4096);
}

TEST(ConfigDefaults, AreThoseOfTheClassNotOfLlama) {
  Json json = read_json(testing::fixtures() / "models" / "qwen3" / "config.json");
  json.erase("head_dim");
  EXPECT_EQ(ModelConfig::from_json(json, "c").head_dim, 128);
  json = read_json(testing::fixtures() / "models" / "gpt2" / "config.json");
  json.erase("tie_word_embeddings");
  EXPECT_TRUE(ModelConfig::from_json(json, "c").tied_head);
}

}  // namespace
}  // namespace reprise
