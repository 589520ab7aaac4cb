// The pad token of a reward model's config.json, from training to whoever reads it: transformers
// takes the last token that is not pad_token_id as the place of a reward.
#include "app/training.h"
#include "support/pad_tokens.h"

#include <reprise/data/batch.h>
#include <reprise/model/pretrained.h>
#include <reprise/text/tokenizer.h>

#include <string>

namespace reprise {
namespace {

using testing::contains;
using testing::copy_score_model;
using testing::kEndToken;
using testing::kPadToken;
using testing::run_program;
using testing::Training;
using testing::training_fixture;
using testing::Words;

const Json kNone;
constexpr const char* kPad = "<|endoftext|>";
constexpr const char* kEnd = "<|im_end|>";

class RewardPad : public Training {
 protected:
  /// `reprise rm` with these pads; returns what it printed.
  std::string rm(const Json& config_pad,
                 const Json& tokenizer_pad,
                 const std::string& data,
                 const Words& more = {}) const {
    std::filesystem::remove_all(path("model"));
    copy_score_model(path("model"), config_pad, tokenizer_pad);
    Words words{"--model", path("model"), "--data", training_fixture("data/" + data + ".jsonl")};
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), {"--overwrite_output_dir"});
    const auto result = train("rm", words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.err;
  }

  Json saved_pad(const std::string& folder = "out") const {
    return read_json(path(folder + "/config.json")).at("pad_token_id");
  }

  /// The scores of rows that end with the end token, padded by the saved tokenizer.
  at::Tensor saved_scores(Pooling pooling) const {
    const auto model = load_model(path("out"), {.head = HeadKind::Score}).model;
    std::vector<Example> examples;
    for (const auto& ids : {std::vector<int64_t>{40, 41, kEndToken}, {50, 51, 52, 53, kEndToken}}) {
      TokenSequence sequence;
      sequence.ids = ids;
      sequence.labels = ids;
      examples.emplace_back().sequences = {sequence};
    }
    const auto special = Tokenizer::open(path("out"))->special_tokens();
    const auto batch = collate(examples, {.pad_id = special.pad.value_or(kEndToken)}).main;
    const at::NoGradGuard no_grad;
    return model->score({.input_ids = batch.input_ids, .attention_mask = batch.attention_mask},
                        pooling);
  }
};

bool warns(const std::string& printed) {
  return contains(printed, "warning: ");
}

TEST_F(RewardPad, IsTheTokenizersSoThatTransformersReadsTheSameToken) {
  for (const Json& config_pad : {Json(kPadToken), Json(kEndToken), kNone}) {
    EXPECT_FALSE(warns(rm(config_pad, kPad, "reward"))) << config_pad;
    EXPECT_EQ(saved_pad(), kPadToken);
    EXPECT_TRUE(
        at::equal(saved_scores(Pooling::LastAttended), saved_scores(Pooling::RightmostNotPad)));
  }
}

TEST_F(RewardPad, IsNoneWhereRowsEndWithItAndTheUserIsToldOnce) {
  for (const auto& [config_pad, tokenizer_pad, reason] :
       {std::tuple<Json, Json, const char*>(kEndToken, kEnd, "rows end with the tokenizer's pad"),
        std::tuple<Json, Json, const char*>(kPadToken, kNone, "the tokenizer has no pad token"),
        std::tuple<Json, Json, const char*>(kNone, kNone, "the tokenizer has no pad token")}) {
    const auto printed = rm(config_pad, tokenizer_pad, "reward");
    EXPECT_EQ(saved_pad(), kNone);
    EXPECT_TRUE(contains(printed, reason)) << printed;
    EXPECT_EQ(printed.find("warning: "), printed.rfind("warning: ")) << printed;
  }
}

TEST_F(RewardPad, StaysTheEndTokenWhereNoRowEndsWithIt) {
  EXPECT_FALSE(warns(rm(kEndToken, kEnd, "chat_pairs")));
  EXPECT_EQ(saved_pad(), kEndToken);
}

TEST_F(RewardPad, IsTrlsWithRightmostNotPad) {
  const Words as_trl{"--pooling", "rightmost_not_pad"};
  EXPECT_FALSE(warns(rm(kPadToken, kNone, "reward", as_trl)));
  EXPECT_EQ(saved_pad(), kEndToken);
  const auto losses = metrics();
  EXPECT_FALSE(warns(rm(kEndToken, kPad, "reward", as_trl)));
  EXPECT_EQ(saved_pad(), kPadToken);
  EXPECT_NE(metrics().front()["loss"], losses.front()["loss"]);
}

TEST_F(RewardPad, OfAnAdapterIsSetWhenItIsMerged) {
  const auto printed = rm(kEndToken, kPad, "reward", {"--lora_r", "4"});
  EXPECT_TRUE(contains(printed, "set pad_token_id of its base model to 0")) << printed;
  const Words words{
      "merge", "--model", path("model"), "--adapter", path("out"), "--output", path("merged")};
  const auto merged = run_program(words);
  ASSERT_EQ(merged.exit_code, 0) << merged.err;
  EXPECT_EQ(saved_pad("merged"), kPadToken);
}

TEST_F(RewardPad, ThatIsTheEndTokenMakesTheRewardOfAnotherProgramsModelAmbiguous) {
  copy_score_model(path("model"), kEndToken, kEnd);
  const auto prompts = write("prompts.jsonl", "{\"prompt\": \"Where is Ada?\"}\n");
  const Words words{"grpo",
                    "--model",
                    training_fixture("models/policy"),
                    "--data",
                    prompts,
                    "--reward_model",
                    path("model"),
                    "--output_dir",
                    path("out"),
                    "--device",
                    "cpu",
                    "--per_device_train_batch_size",
                    "4",
                    "--num_generations",
                    "4",
                    "--max_completion_length",
                    "4",
                    "--max_steps",
                    "1",
                    "--overwrite_output_dir"};
  const auto result = run_program(words);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(contains(result.err, "its pad token is its end token")) << result.err;
  Words told = words;
  told.insert(told.end(), {"--reward_pooling", "rightmost_not_pad"});
  const auto quiet = run_program(told);
  ASSERT_EQ(quiet.exit_code, 0) << quiet.err;
  EXPECT_FALSE(contains(quiet.err, "its pad token is its end token")) << quiet.err;
}

}  // namespace
}  // namespace reprise
