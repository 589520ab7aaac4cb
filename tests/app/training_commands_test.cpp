// The training commands, run as a user runs them: what each does and leaves behind.
#include "app/training.h"

#include <reprise/ops/products.h>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::run_program;
using testing::Training;
using testing::training_fixture;
using testing::Words;

struct TrainingCommand {
  const char* name;
  Words words;
};

std::vector<TrainingCommand> training_commands() {
  const auto policy = training_fixture("models/policy");
  return {
      {"sft", {"--model", policy, "--data", training_fixture("data/sft_messages.jsonl")}},
      {"rm",
       {"--model",
        training_fixture("models/score"),
        "--data",
        training_fixture("data/reward.jsonl")}},
      {"prm",
       {"--model",
        training_fixture("models/steps"),
        "--data",
        training_fixture("data/steps.jsonl")}},
      {"dpo", {"--model", policy, "--data", training_fixture("data/pairs.jsonl")}},
      {"kto", {"--model", policy, "--data", training_fixture("data/unpaired.jsonl")}},
      {"kd",
       {"--model",
        policy,
        "--teacher_model",
        training_fixture("models/teacher"),
        "--data",
        training_fixture("data/sft_completion.jsonl")}},
  };
}

TEST_F(Training, EveryObjectiveLeavesAModelMetricsEventsConfigurationAndAReport) {
  for (const auto& objective : training_commands()) {
    Words words = objective.words;
    words.insert(words.end(), {"--gradient_checkpointing", "--overwrite_output_dir"});
    const auto result = train(objective.name, words);
    ASSERT_EQ(result.exit_code, 0) << objective.name << "\n" << result.err;
    EXPECT_TRUE(contains(result.err, "activation checkpointing: ")) << result.err;
    EXPECT_TRUE(contains(result.err, "(what --activation_memory_budget limits); forward keeps "))
        << result.err;
    for (const char* file : {"model.safetensors",
                             "config.json",
                             "tokenizer.json",
                             "metrics.jsonl",
                             "training.yaml",
                             "report.html",
                             "runs"}) {
      EXPECT_TRUE(fs::exists(folder_.path() / "out" / file)) << objective.name << " " << file;
    }
    const auto lines = metrics();
    ASSERT_EQ(lines.size(), 3U) << objective.name;
    for (const char* key : {"step",
                            "loss",
                            "grad_norm",
                            "learning_rate",
                            "tokens",
                            "step_ms",
                            "peak_bytes",
                            "activation_bytes",
                            "recompute_ms",
                            "epoch",
                            "num_tokens"}) {
      EXPECT_TRUE(lines.front().contains(key)) << objective.name << " " << key;
    }
    EXPECT_GT(lines.back()["recompute_ms"].get<double>(), 0);
  }
}

TEST_F(Training, LoraSavesAnAdapterThatCanBeTrainedOn) {
  ASSERT_EQ(sft(training_fixture("data/sft_text.jsonl"), {"--lora_r", "4"}).exit_code, 0);
  EXPECT_TRUE(fs::exists(folder_.path() / "out" / "adapter_model.safetensors"));
  EXPECT_FALSE(fs::exists(folder_.path() / "out" / "model.safetensors"));
  fs::rename(path("out"), path("first"));
  const auto result = sft(training_fixture("data/sft_text.jsonl"), {"--adapter", path("first")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(fs::exists(folder_.path() / "out" / "adapter_model.safetensors"));
}

TEST_F(Training, ASavedConfigurationRepeatsTheRun) {
  ASSERT_EQ(sft(training_fixture("data/sft_text.jsonl"), {"--learning_rate", "1e-3"}).exit_code, 0);
  const auto result =
      run_program({"sft", "--config", path("out/training.yaml"), "--output_dir", path("again")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(testing::read_text(path("again/model.safetensors")),
            testing::read_text(path("out/model.safetensors")));
}

// Another library has other bits, so a run says which one it was.
TEST_F(Training, RecordsWhoMultiplied) {
  const std::string library = cpu_product_library();
  for (const int run : {1, 2}) {  // from flags, then from what the first one saved
    const auto result =
        run == 1
            ? sft(training_fixture("data/sft_text.jsonl"))
            : run_program({"sft", "--config", path("out/training.yaml"), "--overwrite_output_dir"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const auto configuration = testing::read_text(path("out/training.yaml"));
    EXPECT_TRUE(contains(configuration, "# float32 products: " + library + "\n")) << configuration;
    EXPECT_TRUE(contains(testing::read_text(path("out/report.html")), "float32_products"));
  }
}

TEST_F(Training, SaysWhichAttentionServesAndTakesAnotherIfTold) {
  const auto data = training_fixture("data/sft_text.jsonl");
  const auto plain = sft(data);
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_TRUE(contains(plain.err, "attention: flash\n")) << plain.err;
  const auto weights = testing::read_text(path("out/model.safetensors"));
  const auto repeated = sft(data, {"--deterministic", "--overwrite_output_dir"});
  ASSERT_EQ(repeated.exit_code, 0) << repeated.err;
  EXPECT_TRUE(contains(repeated.err, "attention: flash (deterministic)\n")) << repeated.err;
  EXPECT_TRUE(contains(testing::read_text(path("out/report.html")), "flash (deterministic)"));
  EXPECT_EQ(testing::read_text(path("out/model.safetensors")), weights);
  const auto math = sft(data, {"--attention", "math", "--overwrite_output_dir"});
  ASSERT_EQ(math.exit_code, 0) << math.err;
  EXPECT_TRUE(contains(math.err, "attention: math\n")) << math.err;
}

TEST_F(Training, ShowsTheFirstExampleWithWhatIsTrainedOn) {
  const auto result = sft(training_fixture("data/sft_completion.jsonl"), {"--show_example"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(contains(result.err, "sft_completion.jsonl:1), what is trained on in brackets"))
      << result.err;
  EXPECT_TRUE(contains(result.err, "[[")) << result.err;
}

/// How many of the data sets were packed.
int64_t packed_sets(const std::string& text) {
  int64_t count = 0;
  for (size_t at = text.find("packed into"); at != std::string::npos;
       at = text.find("packed into", at + 1)) {
    ++count;
  }
  return count;
}

TEST_F(Training, PacksAndEvaluatesWhatIsPackedUnlessToldOtherwise) {
  for (const char* strategy : {"bfd", "bfd_split", "wrapped"}) {
    Words words{"--packing",
                "--packing_strategy",
                strategy,
                "--max_length",
                "48",
                "--eval_data",
                training_fixture("data/sft_text.jsonl"),
                "--overwrite_output_dir"};
    for (const int64_t sets : {2, 1}) {
      const auto result = sft(training_fixture("data/sft_text.jsonl"), words);
      EXPECT_EQ(result.exit_code, 0) << strategy << "\n" << result.err;
      EXPECT_EQ(packed_sets(result.err), sets) << result.err;
      EXPECT_TRUE(contains(result.err, "eval_loss")) << result.err;
      words.emplace_back("--no_eval_packing");
    }
  }
}

TEST_F(Training, KeepsTheBestByAMetricWhoseHighestIsBest) {
  const auto result = train("rm",
                            {"--model",
                             training_fixture("models/score"),
                             "--data",
                             training_fixture("data/reward.jsonl"),
                             "--eval_data",
                             training_fixture("data/reward.jsonl"),
                             "--eval_steps",
                             "1",
                             "--metric_for_best_model",
                             "accuracy",
                             "--load_best_model_at_end"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(contains(testing::read_text(path("out/training.yaml")), "greater_is_better: true"));
  EXPECT_TRUE(contains(testing::read_text(path("out/config.json")), "reward_mean"));
}

TEST_F(Training, AFailedStartNeitherBlocksTheNextNorDestroysTheLast) {
  EXPECT_EQ(sft(path("not_there.jsonl")).exit_code, 1);
  ASSERT_EQ(sft(training_fixture("data/sft_text.jsonl")).exit_code, 0);
  EXPECT_EQ(sft(path("not_there.jsonl"), {"--overwrite_output_dir"}).exit_code, 1);
  EXPECT_TRUE(fs::exists(folder_.path() / "out" / "model.safetensors"));
}

TEST_F(Training, AFinishedRunWithoutCheckpointsIsNotBegunAgainByResuming) {
  const auto data = training_fixture("data/sft_text.jsonl");
  ASSERT_EQ(sft(data, {"--save_steps", "0"}).exit_code, 0);
  const auto result = sft(data, {"--save_steps", "0", "--resume_from_checkpoint", "auto"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.err, "its run is done")) << result.err;
}

TEST_F(Training, APatternThatFreezesNothingIsRefused) {
  const auto result = sft(training_fixture("data/sft_text.jsonl"),
                          {"--freeze", "embed_tokens", "--freeze", "nothing"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.err, "nothing: matches no parameter")) << result.err;
}

TEST_F(Training, PrecomputedReferenceGivesTheSameRunAndIsFoundAgain) {
  const Words words{
      "--model", training_fixture("models/policy"), "--data", training_fixture("data/pairs.jsonl")};
  ASSERT_EQ(train("dpo", words).exit_code, 0);
  const auto weights = testing::read_text(path("out/model.safetensors"));
  for (const char* expected : {"computing", "from "}) {
    Words more = words;
    more.insert(more.end(), {"--precompute_ref_log_probs", "--overwrite_output_dir"});
    const auto result = train("dpo", more);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(contains(result.err, std::string("reference log-probabilities: ") + expected))
        << result.err;
    EXPECT_EQ(testing::read_text(path("out/model.safetensors")), weights);
  }
}

}  // namespace
}  // namespace reprise
