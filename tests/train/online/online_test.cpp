// Online training: what it samples, how it learns, what it says about it, and what it refuses.
#include "support/bitwise.h"
#include "support/temporary_folder.h"
#include "train/collecting_observer.h"
#include "train/online/online_case.h"

#include <reprise/report/metrics_file.h>

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

CollectingObserver observed(OnlineCase& one) {
  const TemporaryFolder folder;
  CollectingObserver observer;
  one.train(observer, folder / "output");
  return observer;
}

class EveryEstimator : public ::testing::TestWithParam<OnlineEstimator> {};

constexpr size_t kSteps = 100;

TEST_P(EveryEstimator, LearnsToWriteTheLetterMoreOften) {
  OnlineCase one(GetParam());
  one.options.training.max_steps = kSteps;
  one.options.training.learning_rate = 1e-2;
  one.options.training.schedule.kind = ScheduleKind::Constant;
  const auto rewards = observed(one).all("reward");
  ASSERT_EQ(rewards.size(), kSteps);
  const auto mean = [&](size_t first) {
    return std::accumulate(rewards.begin() + static_cast<int64_t>(first),
                           rewards.begin() + static_cast<int64_t>(first) + 10,
                           0.0) /
           10;
  };
  EXPECT_GT(mean(kSteps - 10), mean(0) + 0.1);
}

INSTANTIATE_TEST_SUITE_P(All,
                         EveryEstimator,
                         ::testing::Values(OnlineEstimator::Gae,
                                           OnlineEstimator::Grpo,
                                           OnlineEstimator::Rloo,
                                           OnlineEstimator::Reinforce,
                                           OnlineEstimator::ReinforceBaseline));

TEST(OnPolicy, SamplerAndTrainerAgree) {
  OnlineCase one(OnlineEstimator::Grpo);
  const auto observer = observed(one);
  for (const auto& record : observer.steps) {
    // Log-probabilities kept from sampling, at its temperature, against those of the training pass.
    EXPECT_LT(record.at("sampling/sampling_logp_difference/mean").get<double>(), 1e-5);
    EXPECT_EQ(record.at("clip_ratio/region_mean").get<double>(), 0);
  }
}

TEST(OnPolicy, ThePolicyIsItsReferenceAtFirst) {
  OnlineCase one(OnlineEstimator::Grpo, /*use_lora=*/true);
  one.add_reference_in_loss(0.1);
  const auto kl = observed(one).all("kl");
  EXPECT_EQ(kl[0], 0);
  EXPECT_GT(kl[2], 0);
}

TEST(GenerationBatch, IsUsedForSeveralStepsAndDescribedOnce) {
  OnlineCase one(OnlineEstimator::Grpo);
  one.options.micro_batches_per_generation = 4;
  one.options.iterations = 2;
  one.options.training.max_steps = 6;
  const auto observer = observed(one);
  for (size_t step = 0; step < 6; ++step) {
    EXPECT_EQ(observer.steps[step].contains("reward"), step % 4 == 0) << step;
    EXPECT_TRUE(observer.steps[step].contains("ratio_mean"));
  }
  // Old log-probabilities come from the same pass, so the first ratios are 1 to the last bit.
  EXPECT_EQ(observer.steps[0]["ratio_mean"].get<double>(), 1);
  EXPECT_NE(observer.steps[2]["ratio_mean"].get<double>(), 1);
}

TEST(Kl, InTheRewardAdaptsItsCoefficient) {
  OnlineCase one(OnlineEstimator::Gae);
  one.add_reference_in_reward(0.2);
  one.options.kl_target = 1e6;  // never reached: the coefficient shrinks
  one.options.kl_horizon = 40;
  const auto coefficients = observed(one).all("kl_coef");
  EXPECT_EQ(coefficients[0], 0.2);
  EXPECT_NEAR(coefficients[1], 0.2 * (1 - 0.2 * 8 / 40), 1e-12);
  EXPECT_LT(coefficients[2], coefficients[1]);
}

TEST(Critic, LearnsAloneWhileItWarmsUp) {
  OnlineCase one(OnlineEstimator::Gae);
  one.options.critic_warmup_steps = 2;
  one.options.training.max_steps = 2;
  const auto before = one.policy->named_parameters();
  std::vector<at::Tensor> old;
  for (const auto& item : before) {
    old.push_back(item.value().detach().clone());
  }
  const auto observer = observed(one);
  size_t i = 0;
  for (const auto& item : one.policy->named_parameters()) {
    EXPECT_TRUE(bitwise_equal(item.value().detach(), old[i++])) << item.key();
  }
  EXPECT_GT(observer.steps[1]["critic/grad_norm"].get<double>(), 0);
}

TEST(Filtering, ReplacesGroupsWithoutSignal) {
  OnlineCase one(OnlineEstimator::Grpo);
  one.prompts = one.with_prompts({"constant one", "A dog and", "constant two", "Tell me"});
  one.options.filter_groups = true;
  const auto observer = observed(one);
  for (const auto& record : observer.steps) {
    EXPECT_EQ(record.at("frac_reward_zero_std").get<double>(), 0);
  }
  double dropped = 0;
  for (const auto& record : observer.steps) {
    dropped += record.at("filter/groups_without_signal").get<double>();
  }
  EXPECT_GE(dropped, 2);
}

TEST(Filtering, EndsWhereNoGroupHasAny) {
  OnlineCase one(OnlineEstimator::Grpo);
  one.prompts = one.with_prompts({"constant one", "constant two"});
  one.options.filter_groups = true;
  one.options.filter_attempts = 3;
  one.options.training.max_steps = 1;
  const auto record = observed(one).steps.at(0);
  EXPECT_EQ(record["filter/rollouts"], 3);
  EXPECT_EQ(record["frac_reward_zero_std"], 1);
  EXPECT_EQ(record["grad_norm"].get<double>(), 0);
}

class Unscorable : public ::testing::TestWithParam<OnlineEstimator> {};

TEST_P(Unscorable, CompletionsTeachNothing) {
  OnlineCase one(GetParam());
  one.prompts = one.with_prompts({"unknown word", "another unknown word"});
  for (const auto& record : observed(one).steps) {
    EXPECT_EQ(record["loss"].get<double>(), 0);
    EXPECT_EQ(record["grad_norm"].get<double>(), 0);
    EXPECT_FALSE(record.contains("reward"));
  }
}

TEST_P(Unscorable, CompletionsDoNotDisturbTheOthers) {
  OnlineCase one(GetParam());
  one.prompts = one.with_prompts({"unknown word", "Tell me"});
  for (const auto& record : observed(one).steps) {
    EXPECT_GT(record["grad_norm"].get<double>(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Estimators,
                         Unscorable,
                         ::testing::Values(OnlineEstimator::Gae,
                                           OnlineEstimator::Grpo,
                                           OnlineEstimator::ReinforceBaseline));

TEST(Truncated, CompletionsAreLeftOutIfAskedFor) {
  OnlineCase one(OnlineEstimator::Grpo);
  one.options.rollout.generate.stop_ids = {};  // none ever ends
  one.options.mask_truncated = true;
  one.options.training.max_steps = 1;
  const auto record = observed(one).steps.at(0);
  EXPECT_EQ(record["completions/clipped_ratio"], 1);
  EXPECT_EQ(record["grad_norm"].get<double>(), 0);
}

TEST(Samples, AreWrittenForPeople) {
  OnlineCase one(OnlineEstimator::Grpo);
  one.options.samples_steps = 2;
  one.options.samples_shown = 3;
  const TemporaryFolder folder;
  CollectingObserver observer;
  one.train(observer, folder / "output");
  const auto samples = MetricsFile::read(folder / "output" / "samples.jsonl");
  ASSERT_EQ(samples.size(), 6);  // steps 1 and 3
  EXPECT_EQ(samples[3]["step"], 3);
  EXPECT_TRUE(samples[0]["rewards"].contains("letter"));
  EXPECT_TRUE(samples[0]["completion"].is_string());
  EXPECT_TRUE(samples[0]["advantage"].is_number());
}

TEST(OnlineEvaluation, IsGreedyAndOfItsOwnPrompts) {
  const auto evaluated = [](double temperature, const std::vector<std::string>& prompts) {
    OnlineCase one(OnlineEstimator::Grpo);
    one.eval_prompts = one.with_prompts(prompts);
    one.options.training.max_steps = 1;
    one.options.training.learning_rate = 0;
    one.options.rollout.generate.sampling.temperature = temperature;
    return observed(one).evaluations.at(0)["eval_completions/mean_length"].get<double>() * 1000 +
           observed(one).evaluations.at(0)["eval_reward"].get<double>();
  };
  const std::vector<std::string> two = {"Say", "Now then"};
  EXPECT_EQ(evaluated(0.9, two), evaluated(3.0, two));
  EXPECT_EQ(evaluated(0.9, {"constant"}) - evaluated(0.9, {"Say"}), 0.5);
}

TEST(Failure, OfARewardKeepsWhatWasLearned) {
  const TemporaryFolder folder;
  struct Failing final : RewardSource {
    int calls = 0;
    std::string name() const override { return "failing"; }
    std::vector<double> score(std::span<const RewardRequest> requests) override {
      TORCH_CHECK(++calls < 3, "the judge is gone");
      std::vector<double> scores;
      for (size_t i = 0; i < requests.size(); ++i) {
        scores.push_back(static_cast<double>(requests[i].completion.size()));
      }
      return scores;
    }
  };
  OnlineCase one(OnlineEstimator::Grpo);
  one.rewards =
      std::make_shared<RewardList>(std::vector<WeightedReward>{{std::make_shared<Failing>(), 1.0}});
  CollectingObserver observer;
  expect_error([&] { one.train(observer, folder / "output"); }, "the judge is gone");
  EXPECT_EQ(latest_checkpoint(folder / "output"), folder / "output" / "checkpoint-2");
  OnlineCase again(OnlineEstimator::Grpo);
  again.resume_from = latest_checkpoint(folder / "output");
  CollectingObserver rest;
  again.train(rest, folder / "output");
  ASSERT_EQ(rest.steps.size(), 1);
  EXPECT_EQ(rest.steps[0]["step"], 3);
}

TEST(Pretraining, LossIsLearnedBesideTheRewards) {
  OnlineCase one(OnlineEstimator::Gae);
  const TemporaryFolder folder;
  one.add_pretraining(folder.path());
  const auto losses = observed(one).all("ptx_loss");
  EXPECT_GT(losses[0], 0);
  EXPECT_LT(losses[2], losses[0]);
}

void expect_refused(OnlineCase& one, const std::string& part) {
  const TemporaryFolder folder;
  CollectingObserver observer;
  expect_error([&] { one.train(observer, folder / "output"); }, part);
}

TEST(Refused, AGroupOfOne) {
  OnlineCase one(OnlineEstimator::Grpo);
  one.options.rollout.generate.samples_per_prompt = 1;
  expect_refused(one, "nothing is learned");
}

TEST(Refused, GreedySamplesOfAGroup) {
  OnlineCase one(OnlineEstimator::Grpo);
  one.options.rollout.generate.sampling.temperature = 0;
  expect_refused(one, "all samples of a prompt would be equal");
}

TEST(Refused, TornGroups) {
  OnlineCase one(OnlineEstimator::Grpo);
  one.options.rollout.generate.samples_per_prompt = 3;
  expect_refused(one, "not a multiple of num_generations (3)");
}

TEST(Refused, HalfAStepOfAGenerationBatch) {
  OnlineCase one(OnlineEstimator::Grpo);
  one.options.micro_batches_per_generation = 3;
  expect_refused(one, "must be a multiple of gradient_accumulation_steps (2)");
}

TEST(Refused, ACriticThatNobodyAsks) {
  OnlineCase one(OnlineEstimator::Gae);
  one.options.estimator = OnlineEstimator::Reinforce;
  expect_refused(one, "gae needs a critic, and other estimators take none");
}

TEST(Refused, AReferenceWithoutEffect) {
  OnlineCase one(OnlineEstimator::Grpo);
  one.add_reference_in_loss(0.1);
  one.options.policy.beta = 0;
  expect_refused(one, "a reference has no effect");
}

TEST(Refused, AKlThatCountsTwice) {
  OnlineCase one(OnlineEstimator::Gae);
  one.add_reference_in_reward(0.1);
  one.options.policy.beta = 0.1;
  expect_refused(one, "the KL would count twice");
}

TEST(Refused, ANameThatNoEstimatorHas) {
  expect_error([] { parse_online_estimator("ppo"); }, "gae, grpo, group_norm, rloo");
}

}  // namespace
}  // namespace reprise::testing
