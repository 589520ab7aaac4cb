// What training adapters costs beside training all weights: no more is kept for backward, and what
// is frozen, or frozen and quantised, costs its forward and its input's gradient alone.
#include "model/lora_case.h"
#include "plan/trace/meta_trace.h"
#include "plan/widened_config.h"
#include "support/kernel_calls.h"

#include <reprise/autocast.h>
#include <reprise/loss/head.h>
#include <reprise/memory.h>
#include <reprise/model/quantization.h>

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace reprise {
namespace {

constexpr int64_t kRows = 2, kLength = 64;

// Activations that are large against what a graph costs otherwise.
ModelConfig config_of(const std::string& family) {
  return testing::widened_config(
      family, {.width = 64, .inner = 96, .layers = 2, .positions = kLength, .vocabulary = 64});
}

LoraConfig adapters_of(double dropout) {
  LoraConfig config;
  config.rank = 4;
  config.dropout = dropout;
  return config;
}

enum class Trained : uint8_t { All, Adapters, AdaptersWithDropout, AdaptersOf4Bits };

std::shared_ptr<Model> make(const std::string& name, Trained trained, const at::TensorOptions& on) {
  auto model = std::make_shared<Model>(config_of(name), HeadKind::CausalLm, on);
  if (!on.device().is_meta()) {
    model->initialize(1);
  }
  if (trained == Trained::AdaptersOf4Bits) {
    quantize_model(*model, {.scheme = {.double_quant = true}});
  }
  if (trained != Trained::All) {
    add_lora(*model, adapters_of(trained == Trained::AdaptersWithDropout ? 0.05 : 0), 1);
  }
  model->train();
  return model;
}

struct Setting {
  std::string name;
  at::ScalarType type;
  bool has_autocast;
};

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = {{"float32", at::kFloat, false},
                                           {"bfloat16", at::kBFloat16, false},
                                           {"autocast", at::kFloat, true}};
  return all;
}

// Bytes that the forward pass keeps for backward.
int64_t kept_bytes(const std::string& name, Trained trained, const Setting& setting, bool on_meta) {
  const auto device = on_meta ? c10::Device(c10::kMeta) : c10::Device(c10::kCPU);
  const auto model = make(name, trained, at::device(device).dtype(setting.type));
  ModelInput input;
  input.input_ids = torch::full({kRows, kLength}, 3, at::device(device).dtype(at::kLong));
  const AutocastScope autocast(on_meta ? at::kCUDA : at::kCPU, at::kBFloat16, setting.has_autocast);
  const int64_t before = live_bytes(device);
  const auto hidden = model->hidden_states(input);
  return live_bytes(device) - before;
}

using FamilyAndSetting = std::tuple<std::string, size_t, bool>;

class KeptForAdapters : public ::testing::TestWithParam<FamilyAndSetting> {};

TEST_P(KeptForAdapters, IsNoMoreThanForAllWeights) {
  const auto& [name, index, for_gpu] = GetParam();
  const auto& setting = settings()[index];
  DeviceProfile gpu;
  gpu.type = c10::kCUDA;
  gpu.generation = 8;
  std::optional<planning::MetaScope> planned;
  if (for_gpu) {
    planned.emplace(gpu);
  }
  const int64_t all = kept_bytes(name, Trained::All, setting, for_gpu);
  EXPECT_LE(kept_bytes(name, Trained::Adapters, setting, for_gpu), all);
  EXPECT_LE(kept_bytes(name, Trained::AdaptersOf4Bits, setting, for_gpu), all);
  // Of dropout, a seed for each group of layers that share an input.
  const int64_t seed = for_gpu ? 512 : sizeof(int64_t);
  const int64_t groups = 4 * config_of(name).layers;
  EXPECT_LE(kept_bytes(name, Trained::AdaptersWithDropout, setting, for_gpu), all + groups * seed);
}

INSTANTIATE_TEST_SUITE_P(
    Families,
    KeptForAdapters,
    ::testing::Combine(
        ::testing::Values(
            "llama", "mistral", "qwen2", "qwen3", "gpt2", "gpt_neox", "gemma2", "phi3"),
        ::testing::Range(size_t{0}, settings().size()),
        ::testing::Bool()),
    [](const auto& test) {
      return std::get<0>(test.param) + "_" + settings()[std::get<1>(test.param)].name +
             (std::get<2>(test.param) ? "_gpu" : "_cpu");
    });

// Calls of a kernel in one backward of a step that trains adapters, with recomputed blocks.
size_t backward_calls(const char* space, const char* op) {
  const auto model = make("llama", Trained::Adapters, at::kFloat);
  model->enable_checkpointing();
  ModelInput input;
  input.input_ids = torch::full({kRows, kLength}, 3, at::kLong);
  const auto loss = next_token_loss(model->forward(input), input.input_ids);
  const testing::KernelCalls calls(space, op);
  loss.backward();
  return calls.get();
}

TEST(FrozenParts, HaveNoGradients) {
  const auto model = make("llama", Trained::AdaptersWithDropout, at::kFloat);
  testing::step_of(*model, testing::plain_input());
  for (const auto& item : model->named_parameters()) {
    EXPECT_EQ(item.value().grad().defined(), item.key().find(".lora.") != std::string::npos)
        << item.key();
  }
}

TEST(FrozenParts, OfTheEmbeddingsAreNotDifferentiated) {
  EXPECT_EQ(backward_calls("aten", "embedding_dense_backward"), 0U);
}

TEST(FrozenParts, AreNotComputedAgainBehindTheLastAdaptersInput) {
  EXPECT_EQ(backward_calls("reprise", "gated_linear"), 0U);
  EXPECT_EQ(backward_calls("reprise", "qkv_rope"), 2U);  // once for each block
}

// The inputs of frozen layers without adapters are needed for nothing.
TEST(FrozenParts, KeepNoInputs) {
  const auto kept = [](const std::vector<std::string>& targets) {
    const auto model =
        std::make_shared<Model>(config_of("llama"), HeadKind::CausalLm, at::device(at::kCPU));
    model->initialize(1);
    add_lora(*model, testing::targeting_modules(targets), 1);
    model->train();
    ModelInput input;
    input.input_ids = torch::full({kRows, kLength}, 3, at::kLong);
    const int64_t before = live_bytes(at::kCPU);
    const auto hidden = model->hidden_states(input);
    return live_bytes(at::kCPU) - before;
  };
  // The input of gate and up is there for their adapters alone, in both blocks.
  const int64_t rows = kRows * kLength * 64 * static_cast<int64_t>(sizeof(float));
  const int64_t more = kept({"q_proj", "up_proj"}) - kept({"q_proj"});
  EXPECT_NEAR(static_cast<double>(more), static_cast<double>(2 * rows), 4096);
}

// The head's product with a gradient for the weight would be a second buffer as large as it.
TEST(FrozenParts, OfTheHeadKeepOnlyTheGradientOfTheirInput) {
  const auto hidden = torch::randn({32, 16}).requires_grad_();
  const auto weight = torch::randn({4096, 16});
  const int64_t before = live_bytes(at::kCPU);
  const auto values = linear_cross_entropy(hidden, {weight}, {torch::full({32}, 3, at::kLong)});
  EXPECT_LT(live_bytes(at::kCPU) - before, 2 * static_cast<int64_t>(hidden.nbytes()));
}

}  // namespace
}  // namespace reprise
