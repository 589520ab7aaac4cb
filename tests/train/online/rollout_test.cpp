// Rollout: the same results however the batches are cut, within its budget, and nothing left over.
#include "support/fixtures.h"
#include "support/tensors.h"

#include <reprise/memory.h>
#include <reprise/model/pretrained.h>
#include <reprise/stats.h>
#include <reprise/train/rollout.h>
#include "model/generation/kv_cache.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace reprise {
namespace {

using Ids = std::vector<int64_t>;

const std::vector<Ids> kPrompts = {{4, 8}, {5, 9, 3, 7, 11, 2}, {9}, {12, 6, 10}, {7, 7, 3, 1}};

class RolloutTest : public ::testing::Test {
 protected:
  static RolloutOptions sampled(int64_t samples, int64_t batch_size) {
    RolloutOptions options;
    options.generate.max_new_tokens = 7;
    options.generate.samples_per_prompt = samples;
    options.generate.sampling.temperature = 1;
    options.batch_size = batch_size;
    return options;
  }

  // How many sequences each batch had.
  std::vector<int64_t> batches_of(RolloutOptions options) {
    std::vector<int64_t> sizes;
    int64_t before = 0;
    options.progress = [&](int64_t done, int64_t total) {
      EXPECT_EQ(total, std::ssize(kPrompts) * options.generate.samples_per_prompt);
      sizes.push_back(done - std::exchange(before, done));
    };
    rollout(*model_, kPrompts, options);
    EXPECT_EQ(before, std::ssize(kPrompts) * options.generate.samples_per_prompt);
    return sizes;
  }

  std::shared_ptr<Model> model_ = load_model(testing::fixtures() / "models" / "llama").model;
};

TEST_F(RolloutTest, ResultsDoNotDependOnTheBatches) {
  const auto expected = generate(*model_, kPrompts, sampled(3, 1).generate);
  for (const int64_t batch_size : {1, 2, 3, 7, 100}) {
    const auto found = rollout(*model_, kPrompts, sampled(3, batch_size));
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].ids, expected[i].ids) << "sequence " << i << ", batch " << batch_size;
      ASSERT_EQ(found[i].logprobs.size(), expected[i].logprobs.size());
      EXPECT_NEAR(found[i].logprobs.back(), expected[i].logprobs.back(), 1e-4);
    }
  }
}

TEST_F(RolloutTest, PromptsKeepTheNumbersTheyWereGiven) {
  auto options = sampled(1, 2);
  options.generate.prompt_numbers = {40, 30, 20, 10, 0};
  const auto found = rollout(*model_, kPrompts, options);
  options.generate.prompt_numbers = {};
  options.generate.first_prompt = 30;
  EXPECT_EQ(found[1].ids, generate(*model_, {kPrompts[1]}, options.generate)[0].ids);
}

TEST_F(RolloutTest, BatchesHoldWholePromptsAndNoMoreThanTheirSize) {
  EXPECT_EQ(batches_of(sampled(2, 5)), (std::vector<int64_t>{4, 4, 2}));
  // More samples than fit come in several batches of one prompt.
  EXPECT_EQ(batches_of(sampled(3, 2)), (std::vector<int64_t>{2, 1, 2, 1, 2, 1, 2, 1, 2, 1}));
}

TEST_F(RolloutTest, BatchesKeepToTheBudgetOfTheCache) {
  auto options = sampled(1, 100);
  // Of the longest prompt two fit, with 6 + 6 cached positions each; of the third longest three.
  options.cache_bytes = 27 * KvCache::bytes_per_position(model_->config(), model_->dtype());
  EXPECT_EQ(batches_of(options), (std::vector<int64_t>{2, 3}));
  options.cache_bytes = 1;
  EXPECT_EQ(batches_of(options), (std::vector<int64_t>{1, 1, 1, 1, 1}));
}

TEST_F(RolloutTest, PromptsOfLikeLengthGoTogetherLongestFirst) {
  auto options = sampled(1, 2);
  options.generate.max_new_tokens = 1;
  std::vector<int64_t> order;
  options.generate.on_token = [&](int64_t sequence, int64_t) { order.push_back(sequence); };
  rollout(*model_, kPrompts, options);
  EXPECT_EQ(order, (std::vector<int64_t>{1, 4, 3, 0, 2}));
}

TEST_F(RolloutTest, EntersNoCheckpointedRegionAndLeavesTheModelAsItWas) {
  model_->train();
  model_->enable_checkpointing();
  record_checkpoint_stats(true);
  reset_checkpoint_stats();
  rollout(*model_, kPrompts, sampled(2, 4));
  EXPECT_EQ(checkpoint_stats().total.entered, 0U);
  EXPECT_TRUE(model_->is_training());
  EXPECT_FALSE(model_->checkpointed_blocks().empty());
  record_checkpoint_stats(false);
}

TEST_F(RolloutTest, LeavesNoTensorBehind) {
  rollout(*model_, kPrompts, sampled(2, 4));  // what is made once and kept
  const int64_t before = live_bytes(at::kCPU);
  const PeakTracker peak(at::kCPU);
  rollout(*model_, kPrompts, sampled(2, 4));
  EXPECT_EQ(live_bytes(at::kCPU), before);
  EXPECT_GT(peak.extra(), 4 * KvCache::bytes_per_position(model_->config(), model_->dtype()));
}

TEST_F(RolloutTest, GivesNothingForNothing) {
  EXPECT_TRUE(rollout(*model_, {}, sampled(2, 4)).empty());
}

TEST_F(RolloutTest, RefusesBatchesWithoutASequence) {
  EXPECT_THROW(rollout(*model_, kPrompts, sampled(1, 0)), c10::Error);
  EXPECT_THROW(rollout(*model_, kPrompts, sampled(0, 1)), c10::Error);
  auto options = sampled(1, 1);
  options.cache_bytes = -1;
  EXPECT_THROW(rollout(*model_, kPrompts, options), c10::Error);
  options = sampled(1, 1);
  options.generate.prompt_numbers = {1};
  EXPECT_THROW(rollout(*model_, kPrompts, options), c10::Error);
}

}  // namespace
}  // namespace reprise
