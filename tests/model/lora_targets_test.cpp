// Which modules a LoraConfig adapts, and what it may not ask for.
#include "model/lora_case.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

using testing::contains;
using testing::open_model;
using Names = std::vector<std::string>;

LoraConfig targeting(LoraConfig::Targets targets) {
  LoraConfig config;
  config.targets = std::move(targets);
  return config;
}

Names adapted_by(const std::string& model, const LoraConfig& config) {
  return add_lora(*open_model(model), config, 0);
}

std::string refusal_of_config(const std::string& model,
                              const LoraConfig& config,
                              HeadKind head = HeadKind::CausalLm) {
  auto opened = open_model(model, {.head = head});
  const auto message = testing::message_of<c10::Error>([&] { add_lora(*opened, config, 0); });
  EXPECT_FALSE(has_lora(*opened)) << "a refusal must leave the model alone";
  for (const auto& parameter : opened->parameters()) {
    EXPECT_TRUE(parameter.requires_grad());
  }
  return message;
}

TEST(LoraTargets, AreTheModulesWhosePathEndsInAName) {
  EXPECT_EQ(adapted_by("llama", targeting(Names{"v_proj"})),
            (Names{"model.layers.0.self_attn.v_proj",
                   "model.layers.1.self_attn.v_proj",
                   "model.layers.2.self_attn.v_proj"}));
  EXPECT_EQ(adapted_by("llama", targeting(Names{"model.layers.1.mlp.up_proj"})),
            Names{"model.layers.1.mlp.up_proj"});
}

TEST(LoraTargets, AreNotModulesWhoseNameOnlyEndsAlike) {
  EXPECT_TRUE(contains(refusal_of_config("llama", targeting(Names{"proj"})), "no module \"proj\""));
}

TEST(LoraTargets, MayBeARegularExpressionForTheWholePath) {
  EXPECT_EQ(adapted_by("llama", targeting(R"(model\.layers\.[12]\..*\.(q|up)_proj)")),
            (Names{"model.layers.1.self_attn.q_proj",
                   "model.layers.1.mlp.up_proj",
                   "model.layers.2.self_attn.q_proj",
                   "model.layers.2.mlp.up_proj"}));
  EXPECT_TRUE(contains(refusal_of_config("llama", targeting("q_proj")), "match no projection"));
}

TEST(LoraTargets, AreEveryProjectionButTheHeadForAllLinear) {
  const std::map<std::string, size_t> projections = {
      {"llama_untied", 7}, {"mistral", 14},    {"qwen2", 14},    {"qwen3", 14},
      {"phi3", 8},         {"gemma2", 14},     {"gpt2", 8},      {"gpt_neox", 8},
      {"chatglm2", 8},     {"phi", 12},        {"falcon", 8},    {"falcon_alibi", 4},
      {"bloom", 8},        {"opt", 12},        {"gptj", 12},     {"gpt_neo", 12},
      {"stablelm", 14},    {"starcoder2", 12}, {"nemotron", 12}, {"gpt_bigcode", 8}};
  for (const auto& [model, count] : projections) {
    const auto paths = adapted_by(model, targeting(LoraConfig::AllLinear{}));
    EXPECT_EQ(paths.size(), count) << model;
    for (const auto& path : paths) {
      EXPECT_TRUE(contains(path, ".0.") || contains(path, ".1.")) << "not in a block: " << path;
    }
  }
}

TEST(LoraTargets, CanBeLimitedToLayers) {
  auto config = targeting(Names{"q_proj"});
  config.layers = {0, 2};
  const Names expected = {"model.layers.0.self_attn.q_proj", "model.layers.2.self_attn.q_proj"};
  EXPECT_EQ(adapted_by("llama", config), expected);
  config.layers_pattern = {"h", "layers"};
  EXPECT_EQ(adapted_by("llama", config), expected);
  config.layers_pattern = {"h"};
  EXPECT_TRUE(
      contains(refusal_of_config("llama", config), "layers_to_transform match no projection"));
}

TEST(LoraTargets, NamedByTheirWholePathAreAdaptedWhateverTheLayers) {
  auto config = targeting(Names{"model.layers.1.self_attn.q_proj", "v_proj"});
  config.layers = {0};
  EXPECT_EQ(adapted_by("llama", config),
            (Names{"model.layers.0.self_attn.v_proj", "model.layers.1.self_attn.q_proj"}));
}

TEST(LoraTargets, LeaveOutWhatIsExcluded) {
  auto config = targeting(Names{"q_proj", "v_proj"});
  config.excluded = Names{"layers.1.self_attn.q_proj", "v_proj"};
  const Names expected = {"model.layers.0.self_attn.q_proj", "model.layers.2.self_attn.q_proj"};
  EXPECT_EQ(adapted_by("llama", config), expected);
  config.excluded = R"(.*\.v_proj|.*\.1\..*)";
  EXPECT_EQ(adapted_by("llama", config), expected);
}

TEST(LoraTargets, HaveRanksAndAlphasOfTheirOwn) {
  auto config = targeting(Names{"q_proj", "v_proj"});
  config.rank = 4;
  config.alpha = 8;
  config.rank_pattern = {{"q_proj", 2}, {R"(layers\.0\..*)", 3}};
  config.alpha_pattern = {{"v_proj", 1}};
  auto model = open_model("llama");
  add_lora(*model, config, 0);
  const auto parameters = model->named_parameters();
  EXPECT_EQ(parameters["model.layers.0.self_attn.q_proj.lora.A"].size(0), 2);
  EXPECT_EQ(parameters["model.layers.0.self_attn.v_proj.lora.A"].size(0), 3);
  EXPECT_EQ(parameters["model.layers.1.self_attn.v_proj.lora.A"].size(0), 4);
}

TEST(LoraTargets, NamedWrongAreRefusedWithWhatThereIs) {
  const auto message = refusal_of_config("llama", targeting(Names{"q_proj", "v_porj"}));
  EXPECT_TRUE(contains(message, "no module \"v_porj\""));
  EXPECT_TRUE(contains(message, "q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj"));
  EXPECT_TRUE(
      contains(refusal_of_config("gpt2", targeting(Names{"q_proj"})), "c_attn, c_proj, c_fc"));
}

TEST(LoraTargets, MustBeProjections) {
  EXPECT_TRUE(contains(refusal_of_config("llama", targeting(Names{"q_proj", "embed_tokens"})),
                       "model.embed_tokens is not a projection"));
  EXPECT_TRUE(
      contains(refusal_of_config("llama", targeting(Names{"self_attn"})), "not a projection"));
  EXPECT_TRUE(contains(refusal_of_config("llama", targeting(".*")), "is not a projection"));
}

TEST(LoraTargets, ThatContradictThemselvesAreRefused) {
  auto config = targeting(".*q_proj");
  config.layers = {1};
  EXPECT_TRUE(
      contains(refusal_of_config("llama", config), "layers_to_transform needs target_modules"));
  config = targeting(Names{"q_proj"});
  config.layers_pattern = {"layers"};
  EXPECT_TRUE(contains(refusal_of_config("llama", config), "without layers_to_transform"));
  config = targeting(Names{"q_proj"});
  config.modules_to_save = {"proj"};
  EXPECT_TRUE(
      contains(refusal_of_config("llama", config), "target_modules and by modules_to_save"));
}

TEST(LoraTargets, ThatAreNotRegularExpressionsAreRefused) {
  EXPECT_TRUE(contains(refusal_of_config("llama", targeting("(q_proj")), "target_modules"));
  auto config = targeting(Names{"q_proj"});
  config.rank_pattern = {{"[", 2}};
  EXPECT_TRUE(contains(refusal_of_config("llama", config), "rank_pattern"));
}

TEST(LoraTargets, ThatSearchTooLongAreRefused) {
  const auto message = refusal_of_config("llama", targeting("(([a-z._0-9]|[a-z.])+)+[!?]"));
  EXPECT_TRUE(contains(message, "target_modules: matching"));
  EXPECT_TRUE(contains(refusal_of_config("llama", targeting(std::string(100'000, 'a'))),
                       "regular expression of"));
}

TEST(LoraTargets, NeedNumbersThatMakeSense) {
  auto config = targeting(Names{"q_proj"});
  config.rank = 0;
  EXPECT_TRUE(contains(refusal_of_config("llama", config), "rank (r) of 0"));
  config.rank = 4;
  config.dropout = 1;
  EXPECT_TRUE(contains(refusal_of_config("llama", config), "lora_dropout of 1"));
  config.dropout = 0;
  config.alpha = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(contains(refusal_of_config("llama", config), "lora_alpha"));
}

TEST(LoraLayout, MustBeTheFamilys) {
  auto config = targeting(Names{"c_attn"});
  config.fan_in_fan_out = false;
  EXPECT_TRUE(contains(refusal_of_config("gpt2", config), "fan_in_fan_out: expected true"));
  config.fan_in_fan_out = true;
  EXPECT_NO_THROW(adapted_by("gpt2", config));
  config = targeting(Names{"q_proj"});
  config.fan_in_fan_out = true;
  EXPECT_TRUE(contains(refusal_of_config("llama", config), "fan_in_fan_out: expected false"));
}

TEST(LoraTask, MustBeTheHeads) {
  auto config = targeting(Names{"q_proj"});
  config.task_type = "SEQ_CLS";
  EXPECT_TRUE(contains(refusal_of_config("llama", config), "task_type: expected CAUSAL_LM"));
  config.task_type = "CAUSAL_LM";
  EXPECT_TRUE(
      contains(refusal_of_config("llama_score", config, HeadKind::Score), "expected SEQ_CLS"));
}

TEST(LoraSavedModules, CannotBeATiedHead) {
  auto config = targeting(Names{"q_proj"});
  config.modules_to_save = {"lm_head"};
  EXPECT_TRUE(contains(refusal_of_config("llama", config), "shares its weight with the embedding"));
  config.modules_to_save = {"embed_tokens"};
  EXPECT_TRUE(contains(refusal_of_config("llama", config), "also the head's weight"));
}

TEST(LoraSavedModules, MustExistAndHaveOneWeight) {
  auto config = targeting(Names{"q_proj"});
  config.modules_to_save = {"lm_haed"};
  EXPECT_TRUE(contains(refusal_of_config("qwen2", config), "no module \"lm_haed\""));
  config.modules_to_save = {"input_layernorm"};
  EXPECT_TRUE(
      contains(refusal_of_config("qwen2", config), "neither a projection nor an embedding"));
  config.modules_to_save = {"mlp"};
  EXPECT_TRUE(
      contains(refusal_of_config("qwen2", config), "neither a projection nor an embedding"));
}

TEST(LoraSavedModules, AreNotAdaptedBesides) {
  auto config = targeting(Names{"q_proj", "v_proj"});
  config.modules_to_save = {"layers.1.self_attn.v_proj"};
  auto model = open_model("llama");
  const auto paths = add_lora(*model, config, 0);
  EXPECT_EQ(std::count(paths.begin(), paths.end(), "model.layers.1.self_attn.v_proj"), 0);
  EXPECT_TRUE(model->named_parameters()["model.layers.1.self_attn.v_proj.weight"].requires_grad());
}

}  // namespace
}  // namespace reprise
