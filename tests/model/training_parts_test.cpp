// What training asks of a model beyond its forward: the head as a matrix, which blocks a step
// recomputes, noise on the embeddings.
#include "model/lora_case.h"
#include "ops/linear/joined.h"

#include <reprise/loss/head.h>
#include <reprise/model/lora.h>
#include <reprise/stats.h>

#include <gtest/gtest.h>

namespace reprise {
namespace {

using testing::open_model;
using testing::plain_input;

LoraConfig on_head(double dropout) {
  LoraConfig config;
  config.targets = std::vector<std::string>{"lm_head"};
  config.dropout = dropout;
  return config;
}

TEST(LinearHead, IsWhatApplyHeadComputesInEveryFamily) {
  for (const auto& name : testing::family_cases()) {
    const auto model = open_model(name);
    model->eval();
    const torch::NoGradGuard no_grad;
    const auto hidden = model->hidden_states(plain_input());
    const auto head = model->linear_head();
    EXPECT_TRUE(testing::bitwise_equal(
        shaped_logits(at::linear(hidden, head.weight, head.bias), head.shape),
        model->apply_head(hidden)))
        << name;
  }
}

TEST(LinearHead, CarriesGradientsToAnAdapterOnTheHead) {
  const auto model = open_model("llama_untied");
  add_lora(*model, on_head(/*dropout=*/0), 0);
  testing::shake(*model);
  const auto input = plain_input();
  const auto plain = testing::step_of(*model, input);
  model->zero_grad();
  const auto targets =
      at::constant_pad_nd(input.input_ids, {0, 1}, kIgnoredLabel).slice(1, 1).contiguous();
  const auto chunked =
      linear_cross_entropy(model->hidden_states(input), model->linear_head(), targets);
  (chunked.sum / static_cast<double>(chunked.tokens)).backward();
  for (const auto& [name, parameter] : trained_parameters(*model)) {
    EXPECT_TRUE(torch::allclose(parameter.grad(), plain.gradients.at(name), 1e-4, 1e-6)) << name;
  }
}

TEST(LinearHead, LeavesAdaptersOutWherePassesDo) {
  const auto model = open_model("llama_untied");
  const auto before = model->linear_head().weight.clone();
  add_lora(*model, on_head(/*dropout=*/0), 0);
  testing::shake(*model);
  EXPECT_TRUE(testing::bitwise_equal(model->linear_head(AdapterUse::Off).weight, before));
  EXPECT_FALSE(torch::equal(model->linear_head(AdapterUse::Trained).weight, before));
}

TEST(LinearHead, RefusesAnAdapterWithDropoutInTraining) {
  const auto model = open_model("llama_untied");
  add_lora(*model, on_head(/*dropout=*/0.1), 0);
  model->train();
  EXPECT_THROW(model->linear_head(), c10::Error);
  model->eval();
  EXPECT_NO_THROW(model->linear_head());
}

TEST(LinearHead, IsRefusedForOtherHeads) {
  LoadOptions options;
  options.head = HeadKind::Score;
  EXPECT_THROW(open_model("llama_score", options)->linear_head(), c10::Error);
}

TEST(RecomputedBlocks, LeaveOutThoseBelowAllThatIsTrained) {
  const auto model = open_model("llama");  // three blocks
  model->enable_checkpointing();
  EXPECT_EQ(model->recomputed_blocks(), (std::vector<int64_t>{0, 1, 2}));
  for (auto& item : model->named_parameters()) {
    item.value().requires_grad_(item.key().find("layers.1.") != std::string::npos);
  }
  EXPECT_EQ(model->recomputed_blocks(), (std::vector<int64_t>{1, 2}));
  record_checkpoint_stats(true);
  reset_checkpoint_stats();
  model->forward(plain_input()).sum().backward();
  std::vector<std::string> recomputed;
  for (const auto& [name, region] : checkpoint_stats().regions) {
    if (region.recomputed > 0) {
      recomputed.push_back(name);
    }
  }
  EXPECT_EQ(recomputed, (std::vector<std::string>{model->block_path(1), model->block_path(2)}));
}

TEST(EmbeddingNoise, ActsWhereGradientsAreRecordedWithOrWithoutDropout) {
  const auto model = open_model("llama");
  const auto plain = model->hidden_states(plain_input());
  model->add_embedding_noise(5.0);
  for (const bool training : {true, false}) {
    model->train(training);
    EXPECT_FALSE(torch::equal(model->hidden_states(plain_input()), plain));
    const torch::NoGradGuard no_grad;
    EXPECT_TRUE(torch::equal(model->hidden_states(plain_input()), plain));
  }
  model->add_embedding_noise(0);
  EXPECT_TRUE(torch::equal(model->hidden_states(plain_input()), plain));
}

// The parameters of a block by the ends of their names.
std::vector<at::Tensor> named(const Model& model, const std::vector<std::string>& ends) {
  std::vector<at::Tensor> found;
  for (const auto& end : ends) {
    for (const auto& item : model.named_parameters()) {
      if (item.key().find(".0.") != std::string::npos && item.key().ends_with(end)) {
        found.push_back(item.value());
      }
    }
  }
  return found;
}

TEST(ProjectionsOfOneInput, LieOneAfterTheOther) {
  const auto model = open_model("llama");
  const auto heads = named(*model, {"q_proj.weight", "k_proj.weight", "v_proj.weight"});
  const auto gates = named(*model, {"gate_proj.weight", "up_proj.weight"});
  ASSERT_EQ(heads.size(), 3U);
  ASSERT_EQ(gates.size(), 2U);
  EXPECT_TRUE(ops::are_adjacent(heads));
  EXPECT_TRUE(ops::are_adjacent(gates));
}

TEST(ProjectionsOfOneInput, LieSoAfterAMoveAndNoticeWrites) {
  const auto model = open_model("qwen2");
  const auto heads = named(*model, {"q_proj.weight", "k_proj.weight", "v_proj.weight"});
  const auto biases = named(*model, {"q_proj.bias", "k_proj.bias", "v_proj.bias"});
  const auto gates = named(*model, {"gate_proj.weight", "up_proj.weight"});
  const auto before = at::cat(heads, 0).detach();
  model->to(at::kDouble);
  EXPECT_EQ(heads[0].scalar_type(), at::kDouble);
  model->to(at::kFloat);
  EXPECT_TRUE(testing::bitwise_equal(at::cat(heads, 0).detach(), before));
  ASSERT_EQ(biases.size(), 3U);
  EXPECT_TRUE(ops::are_adjacent(heads));
  EXPECT_TRUE(ops::are_adjacent(biases));
  EXPECT_TRUE(ops::are_adjacent(gates));
  const auto loss = model->forward(plain_input()).sum();
  {
    const torch::NoGradGuard no_grad;
    heads[2].add_(1);
  }
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(ProjectionsOfOneInput, ComputeTheSameBitsWhereverTheyLie) {
  for (const auto& name : testing::family_cases()) {
    const auto model = open_model(name);
    const auto before = testing::step_of(*model, plain_input());
    model->zero_grad();
    for (const auto& parameter : model->parameters()) {
      parameter.set_data(parameter.detach().clone());  // each in a storage of its own now
    }
    const auto after = testing::step_of(*model, plain_input());
    for (const auto& [parameter, gradient] : before.gradients) {
      EXPECT_TRUE(testing::bitwise_equal(after.gradients.at(parameter), gradient))
          << name << " " << parameter;
    }
  }
}

TEST(ProjectionsOfOneInput, MayBeTrainedInPart) {
  const auto model = open_model("llama");
  const auto whole = testing::step_of(*model, plain_input());
  model->zero_grad();
  for (auto& item : model->named_parameters()) {
    item.value().requires_grad_(item.key().ends_with("k_proj.weight"));
  }
  const auto part = testing::step_of(*model, plain_input());
  for (const auto& [parameter, gradient] : part.gradients) {
    if (parameter.ends_with("k_proj.weight")) {
      EXPECT_TRUE(testing::bitwise_equal(gradient, whole.gradients.at(parameter))) << parameter;
    }
  }
}

}  // namespace
}  // namespace reprise
