// adapter_config.json: what is read, what is written, and what is refused by name.
#include "support/bitwise.h"

#include <reprise/model/lora.h>

#include <gtest/gtest.h>

#include <cmath>

namespace reprise {
namespace {

using testing::contains;

Json config_json(const std::string& more = "") {
  return parse_json(R"({"peft_type": "LORA", "target_modules": ["q_proj"])" + more + "}", "test");
}

LoraConfig read(const std::string& more) {
  return LoraConfig::from_json(config_json(more), "a/adapter_config.json");
}

std::string refusal_of_json(const std::string& more) {
  return testing::message_of<c10::Error>([&] { read(more); });
}

TEST(LoraConfigFields, AreRead) {
  const auto config = read(
      R"(, "r": 16, "lora_alpha": 32, "lora_dropout": 0.1, "use_rslora": true, "bias": "none",
         "modules_to_save": ["lm_head"], "fan_in_fan_out": true, "task_type": "CAUSAL_LM",
         "base_model_name_or_path": "some/model", "layers_to_transform": [1, 3],
         "layers_pattern": "layers", "rank_pattern": {"q_proj": 4}, "alpha_pattern": {"v_proj": 1.5},
         "exclude_modules": ["k_proj"], "use_dora": true, "init_lora_weights": "gaussian")");
  EXPECT_TRUE(config.use_dora);
  EXPECT_EQ(config.init.kind, LoraInit::Kind::Gaussian);
  EXPECT_EQ(config.rank, 16);
  EXPECT_EQ(config.alpha, 32);
  EXPECT_EQ(config.dropout, 0.1);
  EXPECT_TRUE(config.use_rslora);
  EXPECT_EQ(std::get<std::vector<std::string>>(config.targets), std::vector<std::string>{"q_proj"});
  EXPECT_EQ(config.modules_to_save, std::vector<std::string>{"lm_head"});
  EXPECT_EQ(config.fan_in_fan_out, true);
  EXPECT_EQ(config.task_type, "CAUSAL_LM");
  EXPECT_EQ(config.base_model, "some/model");
  EXPECT_EQ(config.layers, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(config.layers_pattern, std::vector<std::string>{"layers"});
  EXPECT_EQ(config.rank_pattern.front(), std::make_pair(std::string("q_proj"), int64_t{4}));
  EXPECT_EQ(config.alpha_pattern.front(), std::make_pair(std::string("v_proj"), 1.5));
  EXPECT_EQ(std::get<std::vector<std::string>>(*config.excluded),
            std::vector<std::string>{"k_proj"});
}

TEST(LoraConfigFields, HavePeftsDefaults) {
  const auto config = read("");
  EXPECT_EQ(config.rank, 8);
  EXPECT_EQ(config.alpha, 8);
  EXPECT_EQ(config.dropout, 0);
  EXPECT_FALSE(config.use_rslora);
  EXPECT_TRUE(config.modules_to_save.empty());
}

TEST(LoraConfigFields, TellNamesFromAnExpressionFromAllLinear) {
  auto json = config_json();
  json["target_modules"] = ".*_proj";
  EXPECT_EQ(std::get<std::string>(LoraConfig::from_json(json, "x").targets), ".*_proj");
  json["target_modules"] = "all-linear";
  EXPECT_TRUE(
      std::holds_alternative<LoraConfig::AllLinear>(LoraConfig::from_json(json, "x").targets));
}

TEST(LoraConfigFields, MayBeUnknownWhileNotInUse) {
  EXPECT_NO_THROW(read(R"(, "some_new_field": null, "another": false, "third": [], "fourth": {})"));
}

TEST(LoraConfigFields, AreRefusedByNameWhenUnknownOrUnsupported) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"some_new_field", "1"},
      {"lora_bias", "true"},
      {"use_qalora", "true"},
      {"layer_replication", "[[0, 2]]"},
      {"trainable_token_indices", "[5]"},
      {"target_parameters", R"(["w"])"},
      {"megatron_config", R"({"a": 1})"},
      {"loftq_config", R"({"loftq_bits": 4})"},
      {"eva_config", R"({"rho": 2})"},
      {"corda_config", R"({"verbose": false})"},
      {"alora_invocation_tokens", "[1]"},
      {"ensure_weight_tying", "true"},
      {"bias", R"("all")"},
      {"init_lora_weights", R"("pissa")"},
      {"init_lora_weights", R"("olora")"},
      {"init_lora_weights", R"("eva")"},
      {"init_lora_weights", R"("loftq")"},
      {"use_dora", R"("yes")"},
  };
  for (const auto& [name, value] : cases) {
    const auto message = refusal_of_json(", \"" + name + "\": " + value);
    EXPECT_TRUE(contains(message, "a/adapter_config.json: " + name)) << name;
  }
}

TEST(LoraConfigFields, AreRefusedWithAnotherType) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"r", "0"},
      {"r", "-4"},
      {"r", "1.5"},
      {"r", "99999999999999999999"},
      {"lora_alpha", R"("8")"},
      {"lora_dropout", "true"},
      {"use_rslora", "1"},
      {"modules_to_save", "3"},
      {"modules_to_save", "[3]"},
      {"modules_to_save", R"([""])"},
      {"task_type", "7"},
      {"layers_to_transform", "[-1]"},
      {"layers_to_transform", R"("all")"},
      {"layers_to_transform", "[18446744073709551615]"},
      {"rank_pattern", R"({"q": 0})"},
      {"rank_pattern", R"({"q": "4"})"},
      {"rank_pattern", "[1]"},
      {"alpha_pattern", R"({"q": null})"},
      {"exclude_modules", "5"},
  };
  for (const auto& [name, value] : cases) {
    EXPECT_TRUE(contains(refusal_of_json(", \"" + name + "\": " + value), name))
        << name << " " << value;
  }
}

TEST(LoraConfigFields, MustSayThatItIsLoraAndWhatItTargets) {
  const auto message = [](const char* text) {
    return testing::message_of<c10::Error>(
        [&] { LoraConfig::from_json(parse_json(text, "test"), "x"); });
  };
  EXPECT_TRUE(contains(message(R"({"peft_type": "IA3"})"), "peft_type: expected LORA"));
  EXPECT_TRUE(contains(message(R"({})"), "peft_type"));
  EXPECT_TRUE(contains(message(R"({"peft_type": "LORA"})"), "target_modules is missing"));
  EXPECT_TRUE(contains(message("[]"), "expected an object"));
}

TEST(LoraConfigJson, HasSortedKeysAndReadsAsItself) {
  LoraConfig config;
  config.rank = 4;
  config.alpha = 2.5;
  config.targets = std::string(".*_proj");
  config.excluded = std::string(".*k_proj");
  config.rank_pattern = {{"q_proj", 2}};
  config.alpha_pattern = {{"q_proj", 3}};
  config.modules_to_save = {"score"};
  const auto json = config.to_json();
  std::string last;
  for (const auto& [name, value] : json.items()) {
    EXPECT_LT(last, name);
    last = name;
  }
  EXPECT_EQ(LoraConfig::from_json(json, "again").to_json(), json);
  EXPECT_EQ(json["lora_alpha"], 2.5);
  EXPECT_EQ(json["alpha_pattern"].dump(), R"({"q_proj":3})");
}

TEST(LoraConfigJson, KeepsFieldsOfTheFileItCameFrom) {
  auto config = read(R"(, "peft_version": "0.9.0", "some_new_field": null, "revision": "main")");
  config.rank = 3;
  const auto json = config.to_json();
  EXPECT_EQ(json["peft_version"], "0.9.0");
  EXPECT_EQ(json["revision"], "main");
  EXPECT_TRUE(json.contains("some_new_field"));
  EXPECT_EQ(json["r"], 3);
}

TEST(LoraInitName, IsReadAndWritten) {
  for (const std::string name :
       {"true", "gaussian", "orthogonal", "pissa", "pissa_niter_0", "pissa_niter_16", "olora"}) {
    EXPECT_EQ(LoraInit::parse(name).name(), name);
  }
  EXPECT_EQ(LoraInit::parse("pissa").iterations, std::nullopt);
  EXPECT_EQ(LoraInit::parse("pissa_niter_16").iterations, 16);
}

TEST(LoraInitName, IsRefusedWithTheNamesThereAre) {
  const auto refusal = [](const std::string& name) {
    return testing::message_of<c10::Error>([&] { LoraInit::parse(name); });
  };
  for (const std::string name : {"",
                                 "Pissa",
                                 "pissa_niter_",
                                 "pissa_niter_-1",
                                 "pissa_niter_4x",
                                 "pissa_niter_99999999999999999999",
                                 "false"}) {
    EXPECT_TRUE(contains(refusal(name), "pissa_niter_N or olora, found \"" + name + "\"")) << name;
  }
  EXPECT_TRUE(contains(refusal("eva"), "needs data"));
  EXPECT_TRUE(contains(refusal("loftq"), "needs a quantised base model"));
}

TEST(LoraScale, IsAlphaOverRankOrOverItsRoot) {
  LoraConfig config;
  config.rank = 16;
  config.alpha = 8;
  EXPECT_DOUBLE_EQ(config.scale(), 0.5);
  config.use_rslora = true;
  EXPECT_DOUBLE_EQ(config.scale(), 2.0);
}

}  // namespace
}  // namespace reprise
