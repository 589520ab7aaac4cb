// Quantised bases as a user trains on them: quantised on load or as their folder is, planned,
// inspected, resumed and merged.
#include "app/training.h"

#include <reprise/model/pretrained.h>
#include <reprise/model/quantization.h>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::run_program;
using testing::training_fixture;
using testing::Words;

class QuantizedCommands : public testing::Training {
 protected:
  std::string rows() const { return training_fixture("data/sft_messages.jsonl"); }

  // The small model's folder, quantised.
  std::string quantized_folder() const {
    const fs::path source = training_fixture("models/policy");
    const auto model =
        load_model(source, {.quantization = QuantizationConfig{.scheme = {.double_quant = true}}})
            .model;
    save_model(*model, path("quantized"), {.source = source});
    return path("quantized");
  }

  Words on(const std::string& model, const Words& more) const {
    Words words{"--model", model, "--data", rows()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(QuantizedCommands, TrainAdaptersAndSayHowTheBaseIsQuantized) {
  const struct {
    Words flags;
    std::string text;
  } cases[] = {
      {{"--load_in_4bit"}, ", nf4, "},
      {{"--load_in_4bit", "--use_bnb_nested_quant"}, ", nf4, double quantisation, "},
      {{"--load_in_4bit", "--bnb_4bit_quant_type", "fp4", "--bnb_4bit_compute_dtype", "bfloat16"},
       ", fp4, "},
      {{"--load_in_8bit", "--llm_int8_skip_modules", "down_proj"}, ", int8, "}};
  for (const auto& [flags, text] : cases) {
    Words words = flags;
    words.insert(words.end(), {"--lora_r", "4", "--overwrite_output_dir"});
    const auto result = train("sft", on(training_fixture("models/policy"), words));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(contains(result.err, " trained" + text)) << result.err;
    EXPECT_TRUE(fs::exists(path("out/adapter_model.safetensors")));
    EXPECT_GT(metrics().back()["grad_norm"], 0);
  }
}

TEST_F(QuantizedCommands, TrainTheSameWithCheckpointing) {
  const auto losses = [&](const Words& more) {
    Words words{"--model",
                training_fixture("models/policy"),
                "--data",
                training_fixture("data/pairs.jsonl"),
                "--load_in_4bit",
                "--lora_r",
                "4",
                "--overwrite_output_dir"};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = train("dpo", words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<double> values;
    for (const auto& step : metrics()) {
      values.push_back(step.value("loss", 0.0));
    }
    return values;
  };
  const auto plain = losses({});
  EXPECT_EQ(losses({"--gradient_checkpointing"}), plain);
  EXPECT_EQ(losses({"--activation_memory_budget", "min"}), plain);
}

TEST_F(QuantizedCommands, TakeAFolderThatIsQuantized) {
  const std::string base = quantized_folder();
  const auto refused = train("sft", on(base, {}));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(contains(refused.err, "quantised weights cannot be trained, only adapters on them"));
  EXPECT_TRUE(contains(refused.err, "give --lora_r 16 too"));
  const auto twice = train("sft", on(base, {"--load_in_4bit", "--lora_r", "4"}));
  EXPECT_EQ(twice.exit_code, 1);
  EXPECT_TRUE(contains(twice.err, "is quantised already (nf4, double quantisation)"));

  const auto trained = train("sft", on(base, {"--lora_r", "4"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const auto merged = run_program({"merge", "--model", path("out"), "--output", path("merged")});
  ASSERT_EQ(merged.exit_code, 0) << merged.err;
  const auto model = load_model(path("merged")).model;
  EXPECT_FALSE(is_quantized(*model));
  EXPECT_FALSE(read_json(path("merged") + "/config.json").contains("quantization_config"));

  const auto inspected = run_program({"inspect", base});
  ASSERT_EQ(inspected.exit_code, 0) << inspected.err;
  EXPECT_TRUE(contains(inspected.out, "nf4, double quantisation, "));
  const auto whole = run_program({"inspect", training_fixture("models/policy")});
  const auto parameters = [](const std::string& text) {
    const size_t begin = text.find("\nparameters");
    return text.substr(begin, text.find('\n', begin + 1) - begin);
  };
  EXPECT_EQ(parameters(inspected.out), parameters(whole.out));
}

TEST_F(QuantizedCommands, ResumeOnTheSameBase) {
  const Words same{"--load_in_4bit", "--lora_r", "4", "--save_steps", "1"};
  ASSERT_EQ(train("sft", on(training_fixture("models/policy"), same)).exit_code, 0);
  Words other{"--load_in_8bit", "--lora_r", "4", "--save_steps", "1"};
  other.insert(other.end(), {"--resume_from_checkpoint", path("out/checkpoint-1")});
  const auto refused = train("sft", on(training_fixture("models/policy"), other));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(contains(refused.err, "load_in_4bit")) << refused.err;
}

TEST_F(QuantizedCommands, ArePlanned) {
  const auto parameters = [&](const Words& more) {
    Words words{"plan",
                "--model",
                training_fixture("models/policy"),
                "--device",
                "h200",
                "--seq",
                "64",
                "--dtype",
                "bfloat16",
                "--json",
                "--lora_r",
                "4"};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = run_program(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  const auto plain = parameters({}), quantized = parameters({"--load_in_4bit"});
  EXPECT_NE(plain, quantized);
  EXPECT_TRUE(contains(quantized, "--load_in_4bit"));
  const auto refused = run_program(
      {"plan", "--model", training_fixture("models/policy"), "--device", "h200", "--load_in_4bit"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(contains(refused.err, "only adapters on them"));
}

// An adapter that was trained over a base quantised on load is used over the same base.
TEST_F(QuantizedCommands, ScoreAndGenerateOverABaseThatIsQuantizedOnLoad) {
  const std::string base = training_fixture("models/policy");
  const auto score = [&](const Words& more) {
    Words words{"score"};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = run_program(words, R"({"input_ids": [4, 5, 6, 7, 8]})");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  const auto quantized = score({"--model", base, "--load_in_4bit", "--use_bnb_nested_quant"});
  EXPECT_EQ(quantized, score({"--model", quantized_folder()}));
  EXPECT_NE(quantized, score({"--model", base}));
  EXPECT_NE(quantized, score({"--model", base, "--load_in_8bit"}));
  const struct {
    Words flags;
    std::string text;
  } refused[] = {
      {{"--bnb_4bit_quant_type", "fp4"}, "requires --load_in_4bit"},
      {{"--load_in_8bit", "--load_in_4bit"}, "excludes"},
      {{"--llm_int8_skip_modules", "down_proj"}, "has no effect without --load_in_4bit"},
      {{"--load_in_8bit", "--llm_int8_skip_modules", "none"}, "matches no linear layer"}};
  for (const auto& [flags, text] : refused) {
    Words words{"generate", "--model", base, "--prompt", "a"};
    words.insert(words.end(), flags.begin(), flags.end());
    const auto result = run_program(words);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_TRUE(contains(result.err, text)) << result.err;
  }
}

}  // namespace
}  // namespace reprise
