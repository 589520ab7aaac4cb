// Rewards of a reward model: the scores are those that its training computed for the same rows, in
// any batches; no checkpointing, no gradients; and texts that it cannot score.
#include <reprise/reward/model.h>

#include "reward/reward_requests.h"
#include "support/devices.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"
#include "support/tensors.h"

#include <reprise/data/batch.h>
#include <reprise/data/rows.h>
#include <reprise/model/pretrained.h>
#include <reprise/stats.h>

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace reprise {
namespace {

using testing::expect_error;
using testing::RewardRequests;

std::filesystem::path folder(const std::string& name) {
  return testing::fixtures() / "training" / "models" / name;
}

std::shared_ptr<Model> score_model() {
  return load_model(folder("score"), {.head = HeadKind::Score}).model;
}

std::shared_ptr<const Tokenizer> tokenizer() {
  return Tokenizer::open(folder("policy"));
}

/// What `reprise rm` computes in training for the chosen text of a row.
double trained_score(const Json& row) {
  RowOptions rows;
  rows.objective = Objective::Rm;
  const auto examples = RowTokenizer(tokenizer(), rows).tokenize(row).examples;
  const TokenBatch batch = collate(examples, {}).main;
  const torch::NoGradGuard no_grad;
  const auto scores = score_model()->score({batch.input_ids, batch.attention_mask, {}, {}, {}},
                                           Pooling::LastAttended);
  return scores[0].item<double>();
}

RewardRequest chat_request() {
  RewardRequest request;
  request.messages = {Json({{"role", "user"}, {"content", "What now?"}})};
  request.prompt = "as the policy renders it";
  request.completion = "Nothing.";
  return request;
}

std::vector<RewardRequest> texts() {
  RewardRequests batch;
  batch.add("Hi", " there").add("A", " longer question with a longer answer").add("", "x");
  batch.add("Hello,", " you");
  for (RewardRequest& request : batch.requests) {
    request.row = nullptr;
  }
  return batch.requests;
}

TEST(ModelReward, ScoresTextAsItsTrainingDid) {
  const double expected =
      trained_score({{"prompt", "Hello,"}, {"chosen", " you"}, {"rejected", "-"}});
  const auto source = make_model_reward(score_model(), tokenizer());
  EXPECT_EQ(source->name(), "model");
  EXPECT_NEAR(source->score(texts())[3], expected, 1e-6);
}

TEST(ModelReward, EndsTextWithEosOnlyIfItIsFinished) {
  auto requests = texts();
  const auto source = make_model_reward(score_model(), tokenizer());
  const double finished = source->score(requests)[0];
  requests[0].is_finished = false;
  const double cut = source->score(requests)[0];
  requests[0].completion += "<|im_end|>";
  EXPECT_NE(finished, cut);
  EXPECT_NEAR(source->score(requests)[0], finished, 1e-6);
  requests[0].is_finished = true;
  EXPECT_NEAR(source->score(requests)[0], finished, 1e-6);
}

TEST(ModelReward, ScoresChatsByItsTemplateAsItsTrainingDid) {
  const Json user = {{"role", "user"}, {"content", "What now?"}};
  const Json answer = {{"role", "assistant"}, {"content", "Nothing."}};
  const double expected = trained_score({{"prompt", Json::array({user})},
                                         {"chosen", Json::array({answer})},
                                         {"rejected", Json::array({answer})}});
  RewardRequest request = chat_request();
  const auto score = [&](const ModelRewardOptions& options) {
    return make_model_reward(score_model(), tokenizer(), options)
        ->score(std::span(&request, 1))
        .at(0);
  };
  EXPECT_NEAR(score({}), expected, 1e-6);
  EXPECT_GT(std::fabs(score({.text = RewardText::Text}) - expected), 1e-3);
  EXPECT_GT(std::fabs(score({.chat_template = "{{ messages[1].content }}"}) - expected), 1e-3);
  request.messages.clear();
  request.prompt = "What now?";
  EXPECT_GT(std::fabs(score({}) - expected), 1e-3) << "as text";
  EXPECT_NEAR(score({.text = RewardText::Chat}), expected, 1e-6);
}

TEST(ModelReward, GivesTheSameScoresInAnyBatches) {
  const auto requests = texts();
  const auto one =
      make_model_reward(score_model(), tokenizer(), {.batch_size = 1})->score(requests);
  for (const int64_t batch_size : {2, 3, 8}) {
    const auto some =
        make_model_reward(score_model(), tokenizer(), {.batch_size = batch_size})->score(requests);
    ASSERT_EQ(some.size(), one.size());
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_NEAR(some[i], one[i], 1e-5) << batch_size << ", " << i;
    }
  }
  EXPECT_TRUE(make_model_reward(score_model(), tokenizer())->score({}).empty());
}

TEST(ModelReward, IsReadAtTheLastTokenAlsoIfItIsThePadToken) {
  const auto expected = make_model_reward(score_model(), tokenizer())->score(texts());
  const auto ends_in_pad = [&](const ModelRewardOptions& options) {
    const auto model = score_model();
    model->set_pad_id(tokenizer()->special_tokens().eos);
    return make_model_reward(model, tokenizer(), options)->score(texts());
  };
  const auto found = ends_in_pad({});
  const auto before_it = ends_in_pad({.pooling = Pooling::RightmostNotPad});
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 1e-6);
    EXPECT_GT(std::fabs(before_it[i] - expected[i]), 1e-3);
  }
}

TEST(ModelReward, EntersNoCheckpointedRegionAndKeepsNoGraph) {
  const auto model = score_model();
  model->enable_checkpointing();
  model->train();
  record_checkpoint_stats(true);
  reset_checkpoint_stats();
  const auto source = make_model_reward(model, tokenizer());
  source->score(texts());
  EXPECT_EQ(checkpoint_stats().total.entered, 0U);
  EXPECT_FALSE(model->is_training());
  for (const auto& parameter : model->parameters()) {
    EXPECT_FALSE(parameter.requires_grad());
  }
}

TEST(ModelReward, DoesNotScoreWhatIsLongerThanItsPositions) {
  auto requests = texts();
  std::string words;
  for (int i = 0; i < 400; ++i) {
    words += " zebra" + std::to_string(i);
  }
  requests[1].completion = words;
  const auto source = make_model_reward(score_model(), tokenizer());
  const auto rewards = source->score(requests);
  EXPECT_TRUE(std::isnan(rewards[1]));
  EXPECT_TRUE(std::isfinite(rewards[0]) && std::isfinite(rewards[2]) && std::isfinite(rewards[3]));
  EXPECT_EQ(source->too_long(), 1);
  const auto strict = make_model_reward(score_model(), tokenizer(), {.max_length = 1});
  EXPECT_TRUE(std::isnan(strict->score(texts())[3]));
  EXPECT_EQ(strict->too_long(), 4);
}

TEST(ModelReward, DoesNotScoreNothing) {
  RewardRequest request;
  request.is_finished = false;
  const auto source = make_model_reward(score_model(), tokenizer());
  EXPECT_TRUE(std::isnan(source->score(std::span(&request, 1))[0]));
  request.is_finished = true;
  EXPECT_TRUE(std::isfinite(source->score(std::span(&request, 1))[0]));
}

TEST(ModelReward, NormalisesByWhatTrainingLeftInTheConfig) {
  const auto plain = make_model_reward(score_model(), tokenizer())->score(texts());
  ModelConfig config = score_model()->config();
  config.source["reward_mean"] = 0.5;
  config.source["reward_std"] = 2.0;
  const auto model = std::make_shared<Model>(config, HeadKind::Score);
  {
    const torch::NoGradGuard no_grad;
    const auto values = score_model()->named_parameters();
    for (auto& item : model->named_parameters()) {
      item.value().copy_(values[item.key()]);
    }
  }
  const auto scaled =
      make_model_reward(model, tokenizer(), {.is_normalized = true})->score(texts());
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_NEAR(scaled[i], (plain[i] - 0.5) / 2, 1e-6);
  }
  expect_error([] { make_model_reward(score_model(), tokenizer(), {.is_normalized = true}); },
               "config.json has no number reward_mean");
  config.source["reward_std"] = 0;
  const auto flat = std::make_shared<Model>(config, HeadKind::Score);
  expect_error([&] { make_model_reward(flat, tokenizer(), {.is_normalized = true}); },
               "a reward_std above 0, found 0.5 and 0");
}

TEST(ModelReward, IsOnItsDeviceOnlyWhileItScores) {
  REPRISE_REQUIRE_CUDA();
  const auto expected = make_model_reward(score_model(), tokenizer())->score(texts());
  const auto model = score_model();
  model->to(at::kCUDA);
  const auto source = make_model_reward(model, tokenizer(), {.is_offloaded = true});
  EXPECT_TRUE(model->device().is_cpu());
  const auto rewards = source->score(texts());
  EXPECT_TRUE(model->device().is_cpu());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(rewards[i], expected[i], 1e-3);
  }
}

TEST(ModelReward, RefusesModelsAndScoresThatAreNone) {
  const auto policy = load_model(folder("policy")).model;
  expect_error([&] { make_model_reward(policy, tokenizer()); },
               "[reward] model: expected a reward model, which has a score head of one label");
  expect_error([] { make_model_reward(score_model(), tokenizer(), {.batch_size = 0}); },
               "a batch size above 0");
  const auto broken = score_model();
  broken->parameters().front().detach().fill_(std::nan(""));
  expect_error([&] { make_model_reward(broken, tokenizer())->score(texts()); },
               "the reward model gives nan, which is not a valid reward");
}

TEST(ModelReward, RefusesATokenizerThatCannotBeItsOwn) {
  const auto other = Tokenizer::open(testing::fixtures() / "tokenizers" / "qwen2");
  const auto source = make_model_reward(score_model(), other);
  auto requests = texts();
  expect_error([&] { source->score(requests); },
               "[reward] model: plain text ends with the EOS token, and this tokenizer has none");
  for (RewardRequest& request : requests) {
    request.is_finished = false;
    request.completion = " a question, an answer, a reward";
  }
  expect_error([&] { source->score(requests); }, "its model has 300 embeddings: they do not match");
  RewardRequest chat = chat_request();
  expect_error([&] { source->score(std::span(&chat, 1)); }, "[reward] model: ");
}

}  // namespace
}  // namespace reprise
