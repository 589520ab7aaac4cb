// DoRA, PiSSA and OLoRA from the command line: trained, resumed, in several processes, described,
// and used with the untouched base model.
#include "app/training.h"

#include <reprise/io/tensor_file.h>

#include <gtest/gtest.h>

#include <cmath>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::expect_refused;
using testing::json_lines;
using testing::read_text;
using testing::run_program;
using testing::training_fixture;
using testing::Words;

const std::string kAdapterFile = "/adapter_model.safetensors";

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class LoraVariants : public testing::Training {
 protected:
  static const std::vector<Words>& variants() {
    static const std::vector<Words> all = {{"--use_dora"},
                                           {"--init_lora_weights", "pissa"},
                                           {"--init_lora_weights", "olora", "--use_rslora"}};
    return all;
  }
  testing::ProgramResult short_sft(const Words& variant, const Words& more = {}) const {
    return sft(training_fixture("data/sft_text.jsonl"),
               joined(joined({"--lora_r", "4", "--learning_rate", "1e-2"}, variant), more));
  }
  /// The same in two processes, without dropout, into the folder "two".
  testing::ProgramResult sft_in_two(const Words& variant, const Words& more) const {
    const Words words{"launch",
                      "--nproc",
                      "2",
                      "--",
                      "sft",
                      "--model",
                      training_fixture("models/policy"),
                      "--data",
                      training_fixture("data/sft_text.jsonl"),
                      "--output_dir",
                      path("two"),
                      "--cache_dir",
                      path("cache"),
                      "--device",
                      "cpu",
                      "--per_device_train_batch_size",
                      "2",
                      "--lora_r",
                      "4",
                      "--learning_rate",
                      "1e-2",
                      "--lora_dropout",
                      "0"};
    return run_program(joined(joined(words, variant), more));
  }
  /// The largest difference between two adapters of the same tensors.
  double distance(const std::string& a, const std::string& b) const {
    const TensorFile one(path(a) + kAdapterFile), other(path(b) + kAdapterFile);
    EXPECT_EQ(one.tensors().size(), other.tensors().size());
    double worst = 0;
    for (const auto& info : one.tensors()) {
      const auto* same = other.find(info.name);
      worst =
          same == nullptr
              ? INFINITY
              : std::max(worst, (one.view(info) - other.view(*same)).abs().max().item<double>());
    }
    return worst;
  }
};

TEST_F(LoraVariants, GoOnFromACheckpointBitForBit) {
  for (const auto& variant : variants()) {
    const Words more{"--overwrite_output_dir", "--max_steps", "4", "--save_steps", "2"};
    const auto whole = short_sft(variant, more);
    ASSERT_EQ(whole.exit_code, 0) << whole.err;
    const auto weights = read_text(path("out") + kAdapterFile);
    fs::remove_all(path("out/checkpoint-4"));
    fs::remove(path("out") + kAdapterFile);
    const auto resumed = short_sft(
        variant, {"--max_steps", "4", "--save_steps", "2", "--resume_from_checkpoint", "auto"});
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    EXPECT_TRUE(contains(resumed.err, "resuming after step 2")) << resumed.err;
    EXPECT_EQ(read_text(path("out") + kAdapterFile), weights) << variant.front();
  }
}

TEST_F(LoraVariants, AreAnotherRunWhenTheyDiffer) {
  ASSERT_EQ(short_sft({"--use_dora"}).exit_code, 0);
  const auto refused =
      short_sft({"--init_lora_weights", "pissa"}, {"--resume_from_checkpoint", "auto"});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_TRUE(contains(refused.err, "--use_dora: was true, now false")) << refused.err;
  EXPECT_TRUE(contains(refused.err, "--init_lora_weights: was \"true\", now \"pissa\""));
}

TEST_F(LoraVariants, TrainTheSameInTwoProcesses) {
  for (const Words& variant : {Words{"--use_dora"}, Words{"--init_lora_weights", "pissa"}}) {
    const auto alone = short_sft(variant, {"--lora_dropout", "0", "--overwrite_output_dir"});
    ASSERT_EQ(alone.exit_code, 0) << alone.err;
    for (const std::string strategy : {"ddp", "zero2", "fsdp"}) {
      const auto result = sft_in_two(
          variant, {"--max_steps", "3", "--overwrite_output_dir", "--parallel", strategy});
      ASSERT_EQ(result.exit_code, 0) << result.err;
      EXPECT_LE(distance("two", "out"), 1e-4) << variant.front() << " " << strategy;
    }
  }
}

TEST_F(LoraVariants, GoOnInTwoProcessesBitForBit) {
  const Words pissa{"--init_lora_weights", "pissa"};
  const Words more{"--max_steps", "4", "--save_steps", "2", "--parallel", "fsdp"};
  const auto whole = sft_in_two(pissa, more);
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const auto weights = read_text(path("two") + kAdapterFile);
  fs::remove_all(path("two/checkpoint-4"));
  fs::remove(path("two") + kAdapterFile);
  const auto resumed = sft_in_two(pissa, joined(more, {"--resume_from_checkpoint", "auto"}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(read_text(path("two") + kAdapterFile), weights);
}

TEST_F(LoraVariants, AreTheReferenceWhenTheyAreSwitchedOff) {
  for (const auto& variant : variants()) {
    const auto result = train("dpo",
                              joined({"--model",
                                      training_fixture("models/policy"),
                                      "--data",
                                      training_fixture("data/pairs.jsonl"),
                                      "--overwrite_output_dir"},
                                     variant));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NEAR(metrics().front()["loss"].get<double>(), std::log(2.0), 1e-5) << variant.front();
  }
}

TEST_F(LoraVariants, AreUsedAndMergedOnTheUntouchedBase) {
  const std::string input = "{\"text\": \"Emiko found nine pears.\"}\n";
  const auto score = [&](const std::string& folder) {
    const auto result = run_program({"score", "--model", folder}, input);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json_lines(result.out).at(0)["logprobs"];
  };
  const Json base = score(training_fixture("models/policy"));
  for (const auto& variant : variants()) {
    ASSERT_EQ(short_sft(variant, {"--overwrite_output_dir"}).exit_code, 0);
    fs::remove_all(path("merged"));
    const auto merged = run_program({"merge", "--model", path("out"), "--output", path("merged")});
    ASSERT_EQ(merged.exit_code, 0) << merged.err;
    const Json with = score(path("out")), after = score(path("merged"));
    double change = 0;
    for (size_t t = 1; t < with.size(); ++t) {
      EXPECT_NEAR(with[t].get<double>(), after[t].get<double>(), 1e-4);
      change = std::max(change, std::abs(with[t].get<double>() - base[t].get<double>()));
    }
    EXPECT_GT(change, 1e-3) << "nothing was learnt";
  }
}

TEST_F(LoraVariants, AreNamedInTheCardAndByInspect) {
  const std::pair<Words, const char*> named[] = {{{"--use_dora"}, "A DoRA adapter of"},
                                                 {{"--init_lora_weights", "olora"}, "An OLoRA"}};
  for (const auto& [variant, text] : named) {
    ASSERT_EQ(short_sft(variant, {"--overwrite_output_dir"}).exit_code, 0);
    EXPECT_TRUE(contains(read_text(path("out/README.md")), text)) << text;
    const auto inspected = run_program({"inspect", path("out")});
    // OLoRA is saved as plain LoRA of twice the rank.
    const char* expected = variant.front() == "--use_dora" ? "DoRA, rank 4" : "LoRA, rank 8";
    EXPECT_TRUE(contains(inspected.out, expected)) << inspected.out;
  }
}

TEST_F(LoraVariants, OfAnAdapterThatIsTrainedFurtherMustBeItsOwn) {
  ASSERT_EQ(short_sft({"--use_dora"}).exit_code, 0);
  fs::rename(path("out"), path("first"));
  const Words dpo{"--model", path("first"), "--data", training_fixture("data/pairs.jsonl")};
  const auto further = train("dpo", joined(dpo, {"--use_dora"}));
  EXPECT_EQ(further.exit_code, 0) << further.err;
  EXPECT_TRUE(contains(read_text(path("out/adapter_config.json")), "\"use_dora\": true"));
  expect_refused(train("dpo", joined(dpo, {"--init_lora_weights", "olora"})),
                 "--init_lora_weights \"olora\": the adapter " + path("first") +
                     " is trained further, and has true");
  expect_refused(train("dpo", joined(dpo, {"--lora_rank_pattern", "q_proj=2"})),
                 "is trained further, and has {}");
}

TEST_F(LoraVariants, HaveBytesInAPlan) {
  const auto trained = [&](const Words& variant) {
    const auto result = run_program(joined({"plan",
                                            "--model",
                                            training_fixture("models/policy"),
                                            "--device",
                                            "h100",
                                            "--max_length",
                                            "32",
                                            "--lora_r",
                                            "4",
                                            "--json"},
                                           variant));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  EXPECT_NE(trained({"--use_dora"}), trained({}));
  EXPECT_NE(trained({"--init_lora_weights", "pissa"}), trained({}));
}

}  // namespace
}  // namespace reprise
