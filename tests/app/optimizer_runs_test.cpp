// Runs of the program with every optimizer: what is planned is what is there, and a resumed run is
// the same run.
#include "app/training.h"

#include <reprise/optim/optimizer.h>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::read_text;
using testing::run_program;
using testing::training_fixture;
using testing::Words;

class OptimizerRuns : public testing::Training {
 protected:
  testing::ProgramResult run(const std::string& optimizer, const Words& more) const {
    Words words{"--dtype",
                "bfloat16",
                "--optim",
                optimizer,
                "--lr_scheduler_type",
                "constant",
                "--weight_decay",
                "0.1",
                "--max_steps",
                "4",
                "--save_steps",
                "2"};
    words.insert(words.end(), more.begin(), more.end());
    return sft(training_fixture("data/sft_text.jsonl"), words);
  }
};

class EveryOptimizer : public OptimizerRuns, public ::testing::WithParamInterface<OptimizerKind> {};

TEST_P(EveryOptimizer, GoesOnFromACheckpointToTheSameBits) {
  const std::string name(name_of(GetParam()));
  const auto whole = run(name, {});
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const std::string weights = read_text(path("out/model.safetensors"));
  const std::string state = read_text(path("out/checkpoint-4/optimizer.safetensors"));
  fs::remove_all(path("out/checkpoint-4"));
  const auto resumed = run(name, {"--resume_from_checkpoint", "auto"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_TRUE(read_text(path("out/model.safetensors")) == weights);
  EXPECT_TRUE(read_text(path("out/checkpoint-4/optimizer.safetensors")) == state);
}

TEST_P(EveryOptimizer, TakesTheBytesThatWerePlanned) {
  const std::string name(name_of(GetParam()));
  const auto trained = run(name, {"--save_steps", "0"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const Words plan{"plan",
                   "--model",
                   training_fixture("models/policy"),
                   "--dtype",
                   "bfloat16",
                   "--optim",
                   name,
                   "--device",
                   "h200",
                   "--json"};
  const auto planned = run_program(plan);
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_EQ(Json::parse(planned.out).at("optimizer_bytes"),
            metrics().front().at("memory").at("optimizer"));
}

INSTANTIATE_TEST_SUITE_P(Kinds,
                         EveryOptimizer,
                         ::testing::Values(OptimizerKind::AdamW,
                                           OptimizerKind::AdamW8bit,
                                           OptimizerKind::AdamWBf16,
                                           OptimizerKind::Lion,
                                           OptimizerKind::Adafactor,
                                           OptimizerKind::Muon));

TEST_F(OptimizerRuns, AreNotResumedWithAnotherOptimizer) {
  ASSERT_EQ(run("adamw", {}).exit_code, 0);
  const auto refused = run("adamw_8bit", {"--resume_from_checkpoint", "auto"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(contains(refused.err, "optim")) << refused.err;
}

// Averages are of the bfloat16 weights, where there is no copy of them.
TEST_F(OptimizerRuns, AverageWeightsWithoutACopy) {
  const Words averaged{"--ema_decay", "0.9"};
  ASSERT_EQ(run("adamw_8bit", averaged).exit_code, 0);
  const std::string averages = read_text(path("out/checkpoint-4/ema.safetensors"));
  fs::remove_all(path("out/checkpoint-4"));
  const auto resumed =
      run("adamw_8bit", {"--ema_decay", "0.9", "--resume_from_checkpoint", "auto"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_TRUE(read_text(path("out/checkpoint-4/ema.safetensors")) == averages);
}

}  // namespace
}  // namespace reprise
