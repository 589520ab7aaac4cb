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
  json["rope_ratio"] = 2;
  EXPECT_TRUE(contains(message_of<c10::Error>([&] { ModelConfig::from_json(json, "c"); }),
                       "rope_ratio: expected 1"));
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
