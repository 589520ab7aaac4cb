// Every family under every choice of blocks: the same loss and gradients to the last bit, and
// exactly the chosen blocks recomputed.
#include "model/generation/kv_cache.h"
#include "model/model_case.h"
#include "support/bitwise.h"
#include "support/devices.h"
#include "support/fixtures.h"
#include "support/parity.h"
#include "support/tensors.h"

#include <reprise/loss/next_token.h>
#include <reprise/memory.h>
#include <reprise/model/pretrained.h>
#include <reprise/stats.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reprise {
namespace {

using testing::contains;
using testing::expect_bitwise_equal;
using testing::loss_and_gradients;
using testing::message_of;
using testing::open_model;

using Names = std::vector<std::string>;

const CheckpointOptions kReentrant{.use_reentrant = true};

Names checkpointed_families() {
  Names names = testing::family_cases();
  names.emplace_back("llama_untied");
  return names;
}

ModelInput masked_input(const std::string& name, at::Device device = at::kCPU) {
  const testing::Expected expected(testing::model_folder(name));
  ModelInput input;
  input.input_ids = expected["input_ids"].to(device);
  input.attention_mask = expected["attention_mask"].to(device);
  return input;
}

// Blocks recomputed in one step, as region names.
std::vector<std::string> recomputed_in_step(Model& model, const ModelInput& input) {
  record_checkpoint_stats(true);
  reset_checkpoint_stats();
  loss_and_gradients(model, input);
  std::vector<std::string> names;
  for (const auto& [name, stats] : checkpoint_stats().regions) {
    if (stats.recomputed > 0) {
      EXPECT_EQ(stats.recomputed, 1U) << name;
      names.push_back(name);
    }
  }
  record_checkpoint_stats(false);
  return names;
}

class EveryFamily : public ::testing::TestWithParam<std::string> {};

void expect_same_gradients_under_every_choice(const std::string& name, at::Device device) {
  const auto model = open_model(name, {.device = device});
  model->eval();  // no dropout: attention then takes a fused kernel, which the policy can keep
  const auto input = masked_input(name, device);
  const auto plain = loss_and_gradients(*model, input);
  const std::vector<std::pair<BlockChoice, CheckpointOptions>> ways = {
      {BlockChoice::all(), {}},
      {BlockChoice::every(2), {}},
      {BlockChoice::first(1), {}},
      {BlockChoice::first(1), {}},
      {BlockChoice::list({0}), {}},
      {BlockChoice::all(), checkpoint_options_named("attention")},
      {BlockChoice::all(), checkpoint_options_named("matmuls")},
      {BlockChoice::all(), kReentrant},
      {BlockChoice::every(2), kReentrant},
  };
  // On a GPU no fused kernel takes heads of an odd size, and the policy says so.
  const bool is_fused = device.is_cpu() || model->config().head_dim % 4 == 0;
  for (const auto& [choice, options] : ways) {
    const bool keeps_attention =
        options.policy != nullptr && options.policy->describe() == "save_attention()";
    if (keeps_attention && !is_fused) {
      continue;
    }
    SCOPED_TRACE(choice.describe() + (options.use_reentrant ? ", reentrant" : ""));
    model->enable_checkpointing(choice, options);
    expect_bitwise_equal(loss_and_gradients(*model, input), plain);
  }
}

TEST_P(EveryFamily, HasTheSameGradientsWhateverIsCheckpointed) {
  expect_same_gradients_under_every_choice(GetParam(), at::kCPU);
}

TEST_P(EveryFamily, HasTheSameGradientsOnAGpu) {
  REPRISE_REQUIRE_CUDA();
  // Otherwise two plain runs already differ: some GPU kernels add in an order of their own.
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  expect_same_gradients_under_every_choice(GetParam(), at::kCUDA);
  at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
}

TEST_P(EveryFamily, HasTheSameDropoutWhenABlockRunsAgain) {
  const auto folder = testing::fixtures() / "models" / GetParam();
  auto config = ModelConfig::read(folder);
  config.attention_dropout = config.residual_dropout = config.embedding_dropout = 0.2;
  Model model(config, HeadKind::CausalLm);
  model.initialize(3);
  model.train();
  const auto input = masked_input(GetParam());
  const auto plain = loss_and_gradients(model, input);
  for (const auto& options : {CheckpointOptions(), kReentrant}) {
    model.enable_checkpointing(BlockChoice::all(), options);
    expect_bitwise_equal(loss_and_gradients(model, input), plain);
  }
}

INSTANTIATE_TEST_SUITE_P(Models,
                         EveryFamily,
                         ::testing::ValuesIn(checkpointed_families()),
                         [](const auto& test) { return test.param; });

TEST(BlockCheckpointing, RecomputesExactlyTheChosenBlocks) {
  const auto model = open_model("llama");  // three blocks
  const auto input = masked_input("llama");
  EXPECT_EQ(recomputed_in_step(*model, input), Names());
  model->enable_checkpointing();
  EXPECT_EQ(recomputed_in_step(*model, input),
            (Names{"model.layers.0", "model.layers.1", "model.layers.2"}));
  model->enable_checkpointing(BlockChoice::every(2));
  EXPECT_EQ(recomputed_in_step(*model, input), (Names{"model.layers.0", "model.layers.2"}));
  EXPECT_EQ(model->checkpointed_blocks(), (std::vector<int64_t>{0, 2}));
  model->enable_checkpointing(BlockChoice::ratio(0.7));
  EXPECT_EQ(model->checkpointed_blocks(), (std::vector<int64_t>{0, 1}));
  model->enable_checkpointing(BlockChoice::parse("list:2,0-1"));
  EXPECT_EQ(model->checkpointed_blocks(), (std::vector<int64_t>{0, 1, 2}));
  model->enable_checkpointing(BlockChoice::list({2}));
  EXPECT_EQ(recomputed_in_step(*model, input), (Names{"model.layers.2"}));
  model->disable_checkpointing();
  EXPECT_EQ(recomputed_in_step(*model, input), Names());
}

TEST(BlockCheckpointing, DoesNotDependOnTrainOrEvalNorOnTheirOrder) {
  const auto model = open_model("llama");
  const auto input = masked_input("llama");
  model->eval();
  model->enable_checkpointing();
  EXPECT_EQ(recomputed_in_step(*model, input).size(), 3U);
  model->train();
  EXPECT_EQ(recomputed_in_step(*model, input).size(), 3U);
}

TEST(BlockCheckpointing, IsNotActiveWithoutGradNorWithACache) {
  const auto model = open_model("llama");
  model->enable_checkpointing();
  record_checkpoint_stats(true);
  reset_checkpoint_stats();
  const torch::NoGradGuard no_grad;
  auto input = masked_input("llama");
  model->forward(input);
  KvCache cache(model->config(), 2, 16, at::kFloat);
  model->hidden_states(input, &cache);
  EXPECT_EQ(cache.length(), 12);
  EXPECT_EQ(checkpoint_stats().total.entered, 0U);
  record_checkpoint_stats(false);
}

TEST(BlockCheckpointing, SparesWhatLiesBelowTheLowestTrainedParameter) {
  for (const bool is_reentrant : {false, true}) {
    const auto model = open_model("llama");
    for (auto& item : model->named_parameters()) {
      item.value().requires_grad_(item.key().starts_with("model.layers.2"));
    }
    model->enable_checkpointing(BlockChoice::all(),
                                is_reentrant ? kReentrant : CheckpointOptions());
    record_checkpoint_stats(true);
    reset_checkpoint_stats();
    const auto input = masked_input("llama");
    next_token_loss(model->forward(input), input.input_ids).backward();
    const auto stats = checkpoint_stats();
    record_checkpoint_stats(false);
    EXPECT_EQ(stats.total.entered, 1U);
    EXPECT_EQ(stats.regions.at("model.layers.2").recomputed, 1U);
  }
}

TEST(BlockCheckpointing, LeavesLessAliveBetweenForwardAndBackward) {
  auto config = ModelConfig::read(testing::fixtures() / "models" / "llama");
  config.layers = 8;
  config.windows.assign(8, 0);
  config.attention_scales.assign(8, config.attention_scales.front());
  Model model(config, HeadKind::CausalLm);
  model.initialize(1);
  ModelInput input;
  input.input_ids = torch::randint(3, config.vocabulary, {2, 64});
  const auto alive_after_forward = [&] {
    const int64_t before = live_bytes(at::kCPU);
    const auto logits = model.forward(input);
    return live_bytes(at::kCPU) - before;
  };
  const int64_t plain = alive_after_forward();
  model.enable_checkpointing();
  const int64_t full = alive_after_forward();
  model.enable_checkpointing(BlockChoice::every(2));
  const int64_t half = alive_after_forward();
  model.enable_checkpointing(BlockChoice::all(), checkpoint_options_named("attention"));
  const int64_t attention = alive_after_forward();
  EXPECT_LT(full * 4, plain);
  EXPECT_LT(full, attention);
  EXPECT_LT(attention, half);
  EXPECT_LT(half * 3, plain * 2);
}

TEST(BlockChoice, RefusesWhatWouldHaveNoEffect) {
  const auto model = open_model("llama");
  const auto refusal = [&](const std::string& text) {
    return message_of<c10::Error>([&] { model->enable_checkpointing(BlockChoice::parse(text)); });
  };
  EXPECT_TRUE(contains(refusal("first:4"), "has 3 blocks"));
  EXPECT_TRUE(contains(refusal("first:9223372036854775807"), "has 3 blocks"));
  EXPECT_TRUE(contains(refusal("list:1,3"), "blocks 0 to 2"));
  EXPECT_TRUE(contains(refusal("list:1,1"), "listed twice"));
  EXPECT_TRUE(contains(refusal("ratio:0"), "more than 0"));
  EXPECT_TRUE(contains(refusal("ratio:1.5"), "at most 1"));
  EXPECT_TRUE(contains(refusal("ratio:0.3"), "none of the 3"));
  EXPECT_TRUE(contains(refusal("list:2-1"), "not a range"));
  EXPECT_TRUE(contains(refusal("every:0"), "at least 1"));
  EXPECT_TRUE(contains(refusal("every:x"), "\"x\" is not a number"));
  EXPECT_TRUE(contains(refusal("some"), "expected all, every:N"));
  EXPECT_TRUE(contains(message_of<c10::Error>([] { checkpoint_options_named("offload"); }),
                       "expected full, attention or matmuls"));
  EXPECT_TRUE(model->checkpointed_blocks().empty());
}

TEST(BlockChoice, OfOneInVeryManyIsTheFirst) {
  EXPECT_EQ(BlockChoice::parse("every:9223372036854775807").choose(3), (std::vector<int64_t>{0}));
}

TEST(BlockChoice, KeepsTheEarlierChoiceIfANewOneIsRefused) {
  const auto model = open_model("llama");
  model->enable_checkpointing(BlockChoice::first(2));
  EXPECT_ANY_THROW(model->enable_checkpointing(BlockChoice::first(9)));
  EXPECT_EQ(model->checkpointed_blocks(), (std::vector<int64_t>{0, 1}));
}

}  // namespace
}  // namespace reprise
