// Every family and head computes what transformers computes: logits, loss and every gradient.
#include "support/parity.h"
#include "model/model_case.h"
#include "support/devices.h"
#include "support/fixtures.h"
#include "support/shifted_batch.h"

#include <reprise/loss/next_token.h>
#include <reprise/model/pretrained.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdio>
#include <map>
#include <string>

namespace reprise {
namespace {

using testing::Batch;
using testing::Expected;
using testing::head_of;
using testing::kBFloat16Factor;
using testing::kFloat32Bound;
using testing::kRoundingBatches;
using testing::relative_error;
using testing::shifted_batch;

struct Outcome {
  at::Tensor logits, loss;
  std::map<std::string, at::Tensor> gradients;
};

at::Tensor loss_of(HeadKind head, const at::Tensor& logits, const at::Tensor& labels) {
  switch (head) {
    case HeadKind::CausalLm:
      return next_token_loss(logits, labels);
    case HeadKind::Score:  // transformers: one label is a regression
      return torch::mse_loss(logits.squeeze(-1).to(at::kFloat), labels.to(at::kFloat));
    default:
      return torch::nn::functional::cross_entropy(logits.to(at::kFloat).flatten(0, 1),
                                                  labels.flatten());
  }
}

std::shared_ptr<Model> open_without_warnings(const std::string& name,
                                             at::ScalarType dtype,
                                             at::Device device = at::kCPU) {
  const auto folder = testing::model_folder(name);
  const auto loaded = load_model(folder, {.head = head_of(name), .dtype = dtype, .device = device});
  EXPECT_TRUE(loaded.warnings.empty()) << loaded.warnings.front();
  loaded.model->eval();
  return loaded.model;
}

Outcome run(Model& model, const Batch& batch) {
  model.zero_grad();
  Outcome outcome;
  const bool is_score = model.head() == HeadKind::Score;
  outcome.logits =
      is_score ? model.score(batch.input, Pooling::RightmostNotPad) : model.forward(batch.input);
  outcome.loss = loss_of(model.head(), outcome.logits, batch.labels);
  outcome.loss.backward();
  for (const auto& item : model.named_parameters()) {
    outcome.gradients[item.key()] = item.value().grad();
  }
  // transformers calls GPT-NeoX's head embed_out in files and lm_head in memory.
  if (auto head_gradient = outcome.gradients.extract("embed_out.weight")) {
    head_gradient.key() = "lm_head.weight";
    outcome.gradients.insert(std::move(head_gradient));
  }
  return outcome;
}

// A bias of keys that are not rotated adds the same to all scores of a query: its gradient is zero,
// and what is computed is rounding.
bool is_rounding(const at::Tensor& gradient) {
  constexpr double kRounding = 1e-6;
  return gradient.abs().max().item<double>() < kRounding;
}

// Logits at attended positions: those of padding are nobody's business.
at::Tensor attended(const at::Tensor& logits, const at::Tensor& mask) {
  return logits.dim() == 3 ? logits.index({mask.to(at::kBool)}) : logits;
}

class Parity : public ::testing::TestWithParam<std::string> {};

TEST_P(Parity, Float32EqualsTransformers) {
  const Expected expected(testing::fixtures() / "models" / GetParam());
  const auto model = open_without_warnings(GetParam(), at::kFloat);
  const auto outcome = run(*model, shifted_batch(expected, model->config().vocabulary, 0));
  const bool is_score = model->head() == HeadKind::Score;
  const auto mask = expected["attention_mask"];
  const double logits_error =
      relative_error(attended(outcome.logits, mask),
                     attended(expected[is_score ? "pooled_logits" : "logits"], mask));
  EXPECT_LE(logits_error, kFloat32Bound);
  EXPECT_LE(relative_error(outcome.loss, expected["loss"]), kFloat32Bound);
  double worst = 0;
  for (const auto& name : expected.gradients()) {
    ASSERT_TRUE(outcome.gradients.contains(name)) << name;
    if (is_rounding(expected["grad." + name])) {
      EXPECT_TRUE(is_rounding(outcome.gradients.at(name))) << name;
      continue;
    }
    const double error = relative_error(outcome.gradients.at(name), expected["grad." + name]);
    EXPECT_LE(error, kFloat32Bound) << name;
    worst = std::max(worst, error);
  }
  std::printf("%-24s logits %.1e  worst of %zu gradients %.1e\n",
              GetParam().c_str(),
              logits_error,
              expected.gradients().size(),
              worst);
}

TEST_P(Parity, Float32OnAGpuEqualsTransformersOnACpu) {
  REPRISE_REQUIRE_CUDA();
  // Not the reference's own kernels: sums are taken in another order.
  constexpr double kOtherKernelsBound = 1e-4;
  const Expected expected(testing::fixtures() / "models" / GetParam());
  const auto model = open_without_warnings(GetParam(), at::kFloat, at::kCUDA);
  auto batch = shifted_batch(expected, model->config().vocabulary, 0);
  batch.input.input_ids = batch.input.input_ids.cuda();
  batch.input.attention_mask = batch.input.attention_mask.cuda();
  batch.labels = batch.labels.cuda();
  const auto outcome = run(*model, batch);
  EXPECT_LE(relative_error(outcome.loss, expected["loss"]), kOtherKernelsBound);
  for (const auto& name : expected.gradients()) {
    if (is_rounding(expected["grad." + name])) {
      continue;
    }
    EXPECT_LE(relative_error(outcome.gradients.at(name), expected["grad." + name]),
              kOtherKernelsBound)
        << name;
  }
}

TEST_P(Parity, BFloat16ErrsAtMostTwiceAsMuchAsTransformers) {
  const Expected expected(testing::fixtures() / "models" / GetParam());
  const auto exact_model = open_without_warnings(GetParam(), at::kFloat),
             model = open_without_warnings(GetParam(), at::kBFloat16);
  const std::string logits_name = model->head() == HeadKind::Score ? "pooled_logits" : "logits";
  const auto mask = expected["attention_mask"];
  std::map<std::string, double> errors;
  for (int64_t step = 0; step < kRoundingBatches; ++step) {
    const Batch batch = shifted_batch(expected, model->config().vocabulary, step);
    const auto exact = run(*exact_model, batch), rounded = run(*model, batch);
    const auto add = [&](const std::string& name, const at::Tensor& a, const at::Tensor& b) {
      errors[name] += relative_error(a, b) / static_cast<double>(kRoundingBatches);
    };
    add(logits_name, attended(rounded.logits, mask), attended(exact.logits, mask));
    add("loss", rounded.loss, exact.loss);
    for (const auto& name : expected.gradients()) {
      if (is_rounding(expected["grad." + name])) {
        continue;
      }
      add("grad." + name, rounded.gradients.at(name), exact.gradients.at(name));
    }
  }
  double worst = 0;
  for (const auto& [name, error] : errors) {
    const double ratio = error / expected.bfloat16_error(name);
    EXPECT_LE(ratio, kBFloat16Factor) << name;
    worst = std::max(worst, ratio);
  }
  std::printf("%-24s bfloat16: worst error %.2f of transformers'\n", GetParam().c_str(), worst);
}

INSTANTIATE_TEST_SUITE_P(LanguageModels,
                         Parity,
                         ::testing::ValuesIn(testing::transformers_language_models()),
                         [](const auto& test) { return test.param; });
INSTANTIATE_TEST_SUITE_P(ChatGlmAndHeads,
                         Parity,
                         ::testing::Values("chatglm2",
                                           "chatglm3",
                                           "llama_score",
                                           "llama_score_pad_is_eos",
                                           "mistral_score",
                                           "qwen2_score",
                                           "qwen3_score",
                                           "gpt2_score",
                                           "gpt_neox_score",
                                           "llama_token_classes",
                                           "mistral_token_classes",
                                           "qwen2_token_classes",
                                           "qwen3_token_classes",
                                           "gpt2_token_classes",
                                           "gpt_neox_token_classes",
                                           "gemma_score",
                                           "gemma2_score",
                                           "gemma3_score",
                                           "phi3_score",
                                           "smollm3_score",
                                           "olmo2_score",
                                           "olmo3_score",
                                           "glm_score",
                                           "glm4_score",
                                           "ministral_score",
                                           "ministral3_score",
                                           "gemma_token_classes",
                                           "gemma2_token_classes",
                                           "phi3_token_classes",
                                           "smollm3_token_classes",
                                           "glm_token_classes",
                                           "glm4_token_classes",
                                           "ministral_token_classes",
                                           "ministral3_token_classes",
                                           "phi_score",
                                           "falcon_score",
                                           "bloom_score",
                                           "opt_score",
                                           "gptj_score",
                                           "gpt_neo_score",
                                           "stablelm_score",
                                           "starcoder2_score",
                                           "nemotron_score",
                                           "gpt_bigcode_score",
                                           "phi_token_classes",
                                           "falcon_token_classes",
                                           "bloom_token_classes",
                                           "gpt_neo_token_classes",
                                           "stablelm_token_classes",
                                           "starcoder2_token_classes",
                                           "gpt_bigcode_token_classes"),
                         [](const auto& test) { return test.param; });

class Inputs : public ::testing::TestWithParam<std::string> {};

TEST_P(Inputs, LeftPaddedRowsEqualTransformers) {
  const auto folder = testing::fixtures() / "models" / GetParam();
  const Expected expected(folder);
  const auto model = load_model(folder).model;
  model->eval();
  ModelInput input;
  input.input_ids = expected["left.input_ids"];
  input.attention_mask = expected["left.attention_mask"];
  input.position_ids = expected["left.position_ids"];
  const auto logits = model->forward(input);
  EXPECT_LE(relative_error(attended(logits, input.attention_mask),
                           attended(expected["left.logits"], input.attention_mask)),
            kFloat32Bound);
}

TEST_P(Inputs, PackedDocumentsDoNotSeeEachOther) {
  const auto folder = testing::fixtures() / "models" / GetParam();
  const Expected expected(folder);
  const auto model = load_model(folder).model;
  model->eval();
  ModelInput input;
  input.input_ids = expected["packed.input_ids"];
  const auto positions = expected["packed.position_ids"];
  input.document_ids = (positions == 0).cumsum(1);
  EXPECT_LE(relative_error(model->forward(input), expected["packed.logits"]), kFloat32Bound);
  // Positions given by the caller mean the same as those found.
  input.position_ids = positions;
  EXPECT_LE(relative_error(model->forward(input), expected["packed.logits"]), kFloat32Bound);
}

INSTANTIATE_TEST_SUITE_P(Families,
                         Inputs,
                         ::testing::ValuesIn(testing::family_cases()),
                         [](const auto& test) { return test.param; });

TEST(Pooling, TransformersAndOpenRlhfDifferWherePaddingIsEos) {
  const auto folder = testing::fixtures() / "models" / "llama_score_pad_is_eos";
  const Expected expected(folder);
  const auto model = load_model(folder, {.head = HeadKind::Score}).model;
  model->eval();
  ModelInput input;
  input.input_ids = expected["input_ids"];
  input.attention_mask = expected["attention_mask"];
  const auto at_mask_end = model->score(input, Pooling::LastAttended);
  const auto last = input.attention_mask.sum(1) - 1;
  const auto rows = torch::arange(2);
  EXPECT_LE(relative_error(at_mask_end, expected["logits"].index({rows, last})), kFloat32Bound);
  EXPECT_GT(relative_error(at_mask_end, expected["pooled_logits"]), 0.01);
}

TEST(ValueHead, GivesTheScoreOfEveryPosition) {
  const auto folder = testing::fixtures() / "models" / "llama_score";
  const Expected expected(folder);
  const auto model = load_model(folder, {.head = HeadKind::Value}).model;
  model->eval();
  ModelInput input;
  input.input_ids = expected["input_ids"];
  input.attention_mask = expected["attention_mask"];
  const auto values = model->forward(input);
  const auto mask = input.attention_mask.to(at::kBool);
  EXPECT_LE(relative_error(values.index({mask}), expected["logits"].squeeze(-1).index({mask})),
            kFloat32Bound);
}

}  // namespace
}  // namespace reprise
