// A run that asks for checkpointing and does not get it, or gets something else, stops and says so.
#include "train/loop/effect_check.h"

#include "model/without_checkpointing.h"
#include "support/temporary_folder.h"
#include "train/collecting_observer.h"
#include "train/training_case.h"

#include <reprise/checkpoint.h>
#include <reprise/policy.h>

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

class Effect : public ::testing::Test {
 protected:
  TrainingCase make(const std::string& objective = "sft", Json run = {}) {
    return {objective, run.is_null() ? usual_run(objective, 3) : run, folder_};
  }

  /// Three blocks, and a head that is not the embedding: what lies below can be frozen.
  TrainingCase with_three_blocks() { return make("sft", plain_run("sft_text", "teacher", 3)); }

  /// What the run says when `change` is made after its first step.
  static std::string stopped_by(TrainingCase& one, const std::function<void()>& change) {
    CollectingObserver observer;
    observer.between_steps = [&](int64_t step) {
      if (step == 1) {
        change();
      }
    };
    std::string error = error_of([&] { one.train(observer); });
    EXPECT_EQ(observer.steps.size(), 1);
    return error;
  }

  static void freeze_below(Model& model, int64_t block) {
    for (auto& item : model.named_parameters()) {
      bool is_above = item.key().find("lm_head") != std::string::npos;
      for (int64_t i = block; i < model.config().layers; ++i) {
        is_above = is_above || item.key().starts_with(model.block_path(i) + ".");
      }
      item.value().requires_grad_(is_above);
    }
  }

  TemporaryFolder folder_;
};

TEST_F(Effect, SwitchingCheckpointingOffDuringTrainingStopsTheRun) {
  auto one = make();
  one.model->enable_checkpointing();
  const auto error = stopped_by(one, [&] { one.model->disable_checkpointing(); });
  EXPECT_NE(error.find("requested blocks: 0-1, but the model now checkpoints: none"),
            std::string::npos)
      << error;
}

TEST_F(Effect, ChoosingOtherBlocksDuringTrainingStopsTheRun) {
  auto one = make();
  one.model->enable_checkpointing();
  const auto error =
      stopped_by(one, [&] { one.model->enable_checkpointing(BlockChoice::list({1})); });
  EXPECT_NE(error.find("but the model now checkpoints: 1"), std::string::npos) << error;
}

TEST_F(Effect, SwitchingCheckpointingOnDuringTrainingStopsTheRun) {
  auto one = make();
  const auto error = stopped_by(one, [&] { one.model->enable_checkpointing(); });
  EXPECT_NE(error.find("requested blocks: none, but the model now checkpoints: 0-1"),
            std::string::npos)
      << error;
}

TEST_F(Effect, BlocksBelowAllThatIsTrainedAreRefused) {
  auto one = with_three_blocks();
  freeze_below(*one.model, 2);
  one.model->enable_checkpointing(BlockChoice::first(2));
  CollectingObserver observer;
  expect_error([&] { one.train(observer); }, "all trained parameters are above them");
  EXPECT_TRUE(observer.steps.empty());
}

TEST_F(Effect, BlocksBelowTheFirstTrainedOneAreNotCountedOn) {
  auto one = with_three_blocks();
  freeze_below(*one.model, 1);
  one.model->enable_checkpointing();
  const EffectCheck check(*one.model);
  EXPECT_EQ(check.expected(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(check.describe(),
            "2 of 3 blocks (1-2); 1 more are below all trained parameters and need none");
  CollectingObserver observer;
  one.train(observer);
  EXPECT_EQ(observer.all("regions_recomputed"), (std::vector<double>{2, 2, 2}));
}

TEST_F(Effect, APolicyThatKeepsEverythingIsNone) {
  auto one = make();
  const auto keep_all = policy::from([](const OpContext&) { return Decision::Keep; });
  one.model->enable_checkpointing(BlockChoice::all(), {.policy = keep_all});
  CollectingObserver observer;
  expect_error([&] { one.train(observer); }, "no memory was freed: the policy keeps everything");
}

/// Regions that keep nothing but their input: recomputed as often as asked, and for nothing.
TEST_F(Effect, RegionsThatFreeNothingAreNone) {
  auto one = make();
  one.model->enable_checkpointing();
  EffectCheck check(*one.model);
  const auto run_step = [&](bool use_reentrant) {
    check.begin_step();
    auto x = torch::randn({4, 4}, at::requires_grad());
    for (const int64_t block : check.expected()) {
      x = checkpoint(
          {.use_reentrant = use_reentrant, .name = one.model->block_path(block)},
          [](const at::Tensor& input) { return input * input; },
          x);
    }
    x.sum().backward();
    check.end_step(1);
  };
  expect_error([&] { run_step(/*use_reentrant=*/false); },
               "no memory was freed: they only dropped inputs, parameters");
  run_step(/*use_reentrant=*/true);  // does not know what it freed
}

TEST_F(Effect, OfReentrantRegionsIsCountedButNotEstimated) {
  auto one = make();
  one.model->enable_checkpointing(BlockChoice::all(), {.use_reentrant = true});
  CollectingObserver observer;
  one.train(observer);
  EXPECT_EQ(observer.all("regions_recomputed"), (std::vector<double>{2, 2, 2}));
  EXPECT_FALSE(observer.steps[0].contains("estimated_activation_bytes"));
}

TEST_F(Effect, WithoutBackwardThereIsNoRecompute) {
  auto one = make();
  one.model->enable_checkpointing();
  EffectCheck check(*one.model);
  check.begin_step();
  ModelInput input;
  input.input_ids = torch::arange(8).reshape({1, 8});
  const auto output = one.model->forward(input);
  expect_error([&] { check.end_step(1); },
               "layers.0: expected 1 checkpointed runs and 1 recomputes in 1 micro-batches, got 1 "
               "runs and 0 "
               "recomputes");
  check.begin_step();
  one.model->forward(input).sum().backward();
  expect_error([&] { check.end_step(2); }, "2 recomputes in 2 micro-batches");
  check.begin_step();
  one.model->forward(input).sum().backward();
  const auto effect = check.end_step(1);
  EXPECT_EQ(effect.blocks, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(effect.recomputed, 2);
  EXPECT_GT(effect.bytes_dropped, 0);
}

TEST_F(Effect, PassesOfReferenceTeacherAndEvaluationEnterNoRegion) {
  for (const char* objective : {"dpo", "kto", "kd", "reward"}) {
    SCOPED_TRACE(objective);
    Json run = usual_run(objective, 3);
    run["eval_data"] = run["data"];
    const TemporaryFolder folder;
    TrainingCase one(objective, run, folder);
    one.options.eval_steps = 1;
    one.model->enable_checkpointing();
    CollectingObserver observer;
    one.train(observer);  // would throw
    EXPECT_EQ(observer.evaluations.size(), 3);
    EXPECT_EQ(observer.all("regions_recomputed"), (std::vector<double>{2, 2, 2}));
  }
}

TEST_F(Effect, APassThatMustNotPayForRegionsIsCheckedForIt) {
  auto one = make();
  one.model->enable_checkpointing();
  ModelInput input;
  input.input_ids = torch::arange(8).reshape({1, 8});
  without_checkpointing("a pass", [&] { one.model->forward(input); });
  const auto with_gradients = [&] {
    const torch::AutoGradMode enabled(true);
    one.model->forward(input);
  };
  expect_error([&] { without_checkpointing("a pass", with_gradients); },
               "a pass entered 2 checkpointed regions");
}

TEST_F(Effect, IsToldAfterTheFirstStep) {
  auto one = make();
  one.model->enable_checkpointing(BlockChoice::list({1}));
  CollectingObserver observer;
  one.train(observer);
  ASSERT_TRUE(observer.first_effect);
  EXPECT_EQ(observer.first_effect->blocks, (std::vector<int64_t>{1}));
  EXPECT_EQ(observer.first_effect->recomputed, 1);
  EXPECT_GT(observer.first_effect->bytes_dropped, 0);
}

}  // namespace
}  // namespace reprise::testing
