// Other types than float32: parameters in half precision, autocast, and the head in float32.
// Autocast takes the same fused operators, and keeps no converted weights.
#include "model/generation/kv_cache.h"
#include "model/model_case.h"
#include "support/bitwise.h"
#include "support/devices.h"
#include "support/fixtures.h"
#include "support/kernel_calls.h"
#include "support/parity.h"
#include "support/tensors.h"

#include <reprise/autocast.h>
#include <reprise/loss/next_token.h>
#include <reprise/memory.h>
#include <reprise/model/pretrained.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reprise {
namespace {

using testing::expect_bitwise_equal;
using testing::family_cases;
using testing::loss_and_gradients;
using testing::relative_error;

std::shared_ptr<Model> open_without_dropout(const std::string& name,
                                            at::ScalarType dtype = at::kFloat) {
  const auto model = testing::open_model(name, {.dtype = dtype});
  model->eval();
  return model;
}

ModelInput unmasked_input(const std::string& name) {
  ModelInput input;
  input.input_ids = testing::Expected(testing::model_folder(name))["input_ids"];
  return input;
}

class Precision : public ::testing::TestWithParam<std::string> {};

TEST_P(Precision, Float16IsNearFloat32) {
  const auto input = unmasked_input(GetParam());
  const auto exact = open_without_dropout(GetParam())->forward(input);
  const auto half = open_without_dropout(GetParam(), at::kHalf)->forward(input);
  EXPECT_EQ(half.scalar_type(), at::kHalf);
  EXPECT_LE(relative_error(half, exact), 0.02);
}

TEST_P(Precision, AutocastKeepsFloat32ParametersAndTheLawOfEqualBits) {
  const auto input = unmasked_input(GetParam());
  const auto model = open_without_dropout(GetParam());
  const auto exact = loss_and_gradients(*model, input);
  const AutocastScope autocast(at::kCPU, at::kBFloat16);
  const auto plain = loss_and_gradients(*model, input);
  EXPECT_GT(relative_error(plain.front(), exact.front()), 0);
  EXPECT_LE(relative_error(plain.front(), exact.front()), 0.05);
  EXPECT_EQ(plain.back().scalar_type(), at::kFloat);
  for (const char* policy : {"full", "attention"}) {
    model->enable_checkpointing(BlockChoice::all(), checkpoint_options_named(policy));
    expect_bitwise_equal(loss_and_gradients(*model, input), plain);
  }
  CheckpointOptions reentrant;
  reentrant.use_reentrant = true;
  model->enable_checkpointing(BlockChoice::all(), reentrant);
  expect_bitwise_equal(loss_and_gradients(*model, input), plain);
}

TEST_P(Precision, AutocastOnAGpuKeepsTheLawOfEqualBits) {
  REPRISE_REQUIRE_CUDA();
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  const auto model = open_without_dropout(GetParam());
  model->to(at::Device(at::kCUDA));
  auto input = unmasked_input(GetParam());
  input.input_ids = input.input_ids.cuda();
  {
    const AutocastScope autocast(at::kCUDA, at::kBFloat16);
    const auto plain = loss_and_gradients(*model, input);
    EXPECT_EQ(plain.back().scalar_type(), at::kFloat);
    model->enable_checkpointing();
    expect_bitwise_equal(loss_and_gradients(*model, input), plain);
  }
  at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
}

TEST_P(Precision, TheHeadInFloat32IsNotRounded) {
  const auto input = unmasked_input(GetParam());
  const auto model = open_without_dropout(GetParam(), at::kBFloat16);
  const auto hidden = model->hidden_states(input);
  model->compute_head_in_float32(true);
  const auto wide = model->apply_head(hidden);
  EXPECT_EQ(wide.scalar_type(), at::kFloat);
  model->compute_head_in_float32(false);
  const auto narrow = model->apply_head(hidden);
  EXPECT_EQ(narrow.scalar_type(), at::kBFloat16);
  EXPECT_LE(relative_error(narrow, wide), 0x1p-7);
  EXPECT_FALSE(torch::equal(wide.to(at::kBFloat16).to(at::kFloat), wide));
  // Autocast does not reach into it.
  model->compute_head_in_float32(true);
  const AutocastScope autocast(at::kCPU, at::kBFloat16);
  EXPECT_TRUE(torch::equal(model->apply_head(hidden), wide));
}

TEST_P(Precision, ACacheUnderAutocastGivesWhatOnePassGives) {
  const torch::NoGradGuard no_grad;
  const auto input = unmasked_input(GetParam());
  const auto model = open_without_dropout(GetParam());
  const AutocastScope autocast(at::kCPU, at::kBFloat16);
  const auto whole = model->forward(input);
  KvCache cache(model->config(), 2, 12, at::kFloat);
  ModelInput part;
  part.input_ids = input.input_ids.slice(1, 0, 11);
  model->hidden_states(part, &cache);
  part.input_ids = input.input_ids.slice(1, 11);
  const auto last = model->apply_head(model->hidden_states(part, &cache));
  EXPECT_LE(relative_error(last.select(1, 0), whole.select(1, 11)), 0.05);
}

INSTANTIATE_TEST_SUITE_P(Families,
                         Precision,
                         ::testing::ValuesIn(family_cases()),
                         [](const auto& test) { return test.param; });

size_t calls_of(const char* space, const char* op, Model& model, const ModelInput& input) {
  const testing::KernelCalls calls(space, op);
  model.hidden_states(input);
  return calls.get();
}

TEST(FusedOperators, ServeUnderAutocastAndWithNormsOfHeads) {
  for (const std::string name : {"llama",
                                 "mistral",
                                 "qwen2",
                                 "qwen3",
                                 "chatglm2",
                                 "gemma",
                                 "gemma2",
                                 "gemma3",
                                 "phi3",
                                 "olmo2",
                                 "granite",
                                 "glm4",
                                 "cohere"}) {
    const auto model = open_without_dropout(name);
    const auto input = unmasked_input(name);
    const auto layers = static_cast<size_t>(model->config().layers);
    const bool has_norms = model->config().qk_norm != QkNorm::None;
    for (const bool is_on : {false, true}) {
      SCOPED_TRACE(name + (is_on ? " under autocast" : ""));
      const AutocastScope autocast(at::kCPU, at::kBFloat16, is_on);
      const auto calls = [&](const char* op) { return calls_of("reprise", op, *model, input); };
      EXPECT_EQ(calls("qkv_rope"), has_norms ? 0 : layers);
      EXPECT_EQ(calls("rope"), has_norms ? 2 * layers : 0);
      EXPECT_EQ(calls("gated_linear"), layers);
      // Queries, keys and values; the output; gate and up; down.
      EXPECT_EQ(calls_of("aten", "mm", *model, input) + calls_of("aten", "addmm", *model, input),
                4 * layers);
    }
  }
}

TEST(Autocast, KeepsNoConvertedWeightsForBackward) {
  auto config = ModelConfig::read(testing::fixtures() / "models" / "llama");
  config.intermediate = 4096;  // weights that are large against two tokens
  Model model(config, HeadKind::CausalLm);
  model.initialize(1);
  int64_t weights = 0;
  for (const auto& parameter : model.parameters()) {
    weights += static_cast<int64_t>(parameter.nbytes());
  }
  ModelInput input;
  input.input_ids = torch::tensor({3, 4}, torch::kLong).unsqueeze(0);
  const int64_t before = live_bytes(at::kCPU);
  at::Tensor hidden;
  {
    const AutocastScope autocast(at::kCPU, at::kBFloat16);
    hidden = model.hidden_states(input);
  }
  EXPECT_LT(8 * (live_bytes(at::kCPU) - before), weights);
}

TEST(KvCache, IsNotSharedByAnotherNumberOfSequences) {
  const torch::NoGradGuard no_grad;
  const auto model = open_without_dropout("llama");
  KvCache cache(model->config(), 4, 12, at::kFloat);
  EXPECT_TRUE(testing::contains(testing::message_of<c10::Error>(
                                    [&] { model->hidden_states(unmasked_input("llama"), &cache); }),
                                "made for 4 sequences, got 2"));
}

}  // namespace
}  // namespace reprise
