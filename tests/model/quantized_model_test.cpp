// Quantised models: those that transformers wrote give its logits and gradients, and quantising on
// load makes the same bits. Moving, merging and what is refused.
#include "model/quantization/quantize_model.h"
#include "model/quantized_case.h"
#include "quant/quantized_weight.h"
#include "support/parity.h"
#include "support/temporary_folder.h"

#include <reprise/autocast.h>
#include <reprise/memory.h>

#include <gtest/gtest.h>

namespace reprise {
namespace {

using testing::bitwise_equal;
using testing::contains;
using testing::kFloat32Bound;
using testing::message_of;
using testing::open_quantized;
using testing::plain_input;
using testing::quant_folder;
using testing::relative_error;

class QuantizedModel : public ::testing::TestWithParam<testing::QuantizedCase> {};

TEST_P(QuantizedModel, GivesTheLogitsLossAndGradientsOfTransformersPeftAndBitsandbytes) {
  const auto model = testing::open_adapted(GetParam().name);
  const TensorFile expected(quant_folder(GetParam().name) / "expected.safetensors");
  const auto value = [&](const std::string& name) { return expected.view(*expected.find(name)); };
  const auto ids = value("input_ids").clone();
  const auto logits = model->forward({.input_ids = ids});
  const auto loss = next_token_loss(logits, ids);
  loss.backward();
  EXPECT_LE(relative_error(logits, value("logits")), kFloat32Bound);
  EXPECT_LE(relative_error(loss, value("loss")), kFloat32Bound);
  const auto trained = trained_parameters(*model);
  EXPECT_EQ(trained.size() + 3, expected.tensors().size());
  for (const auto& [name, parameter] : trained) {
    ASSERT_NE(expected.find("grad." + name), nullptr) << name;
    EXPECT_LE(relative_error(parameter.grad(), value("grad." + name)), kFloat32Bound) << name;
  }
}

TEST_P(QuantizedModel, QuantizedOnLoadHasTheSameBits) {
  const auto [name, base, config] = GetParam();
  const auto stored = open_quantized(name);
  const auto model = load_model(quant_folder(base), {.quantization = config}).model;
  const auto found = linears_of(*model), expected = linears_of(*stored);
  ASSERT_EQ(found.size(), expected.size());
  size_t quantized = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const auto& a = found[i].second->quantized();
    const auto& b = expected[i].second->quantized();
    ASSERT_EQ(a == nullptr, b == nullptr) << found[i].first;
    if (a == nullptr) {
      continue;
    }
    ++quantized;
    EXPECT_TRUE(bitwise_equal(a->packed, b->packed)) << found[i].first;
    EXPECT_TRUE(bitwise_equal(a->scales, b->scales)) << found[i].first;
    EXPECT_TRUE(bitwise_equal(a->nested_scales, b->nested_scales)) << found[i].first;
    EXPECT_EQ(a->offset, b->offset) << found[i].first;
  }
  EXPECT_GT(quantized, 3);
  EXPECT_TRUE(bitwise_equal(testing::logits_of(*model, plain_input()),
                            testing::logits_of(*stored, plain_input())));
  auto whole = load_model(quant_folder(base)).model;
  quantize_model(*whole, config);
  EXPECT_TRUE(bitwise_equal(testing::logits_of(*whole, plain_input()),
                            testing::logits_of(*stored, plain_input())));
}

TEST_P(QuantizedModel, DequantizedComputesTheSame) {
  const auto model = open_quantized(GetParam().name);
  const auto before = testing::logits_of(*model, plain_input());
  const size_t parameters = model->named_parameters().size();
  dequantize_model(*model, at::kFloat);
  EXPECT_FALSE(is_quantized(*model));
  EXPECT_GT(model->named_parameters().size(), parameters);
  EXPECT_LE(relative_error(testing::logits_of(*model, plain_input()), before), kFloat32Bound);
}

TEST_P(QuantizedModel, MergesAdaptersOnceItIsDequantized) {
  const auto model = testing::open_adapted(GetParam().name);
  const auto before = testing::logits_of(*model, plain_input());
  EXPECT_TRUE(contains(message_of<c10::Error>([&] { merge_lora(*model); }), "dequantize_model()"));
  EXPECT_TRUE(
      contains(message_of<c10::Error>([&] { const MergedLora merged(*model); }), "reprise merge"));
  dequantize_model(*model, at::kFloat);
  for (const auto& [name, parameter] : trained_parameters(*model)) {
    EXPECT_NE(name.find("lora_"), std::string::npos) << name;
  }
  merge_lora(*model);
  EXPECT_LE(relative_error(testing::logits_of(*model, plain_input()), before), kFloat32Bound);
}

INSTANTIATE_TEST_SUITE_P(Formats,
                         QuantizedModel,
                         ::testing::ValuesIn(testing::quantized_cases()),
                         [](const auto& test) { return test.param.name; });

TEST(QuantizedModels, HaveNoParameterForAQuantizedWeight) {
  const auto model = open_quantized("llama_nf4");
  for (const auto& item : model->named_parameters()) {
    EXPECT_TRUE(at::isFloatingType(item.value().scalar_type())) << item.key();
    EXPECT_EQ(item.key().find("_proj.weight"), std::string::npos) << item.key();
  }
  EXPECT_EQ(quantized_count(*model), 2 * (2 * 24 * 24 + 2 * 24 * 12 + 3 * 24 * 40));
  EXPECT_GT(quantized_bytes(*model), quantized_count(*model) / 2);
}

// Every family has linear layers by other names and in other layouts.
TEST(QuantizedModels, CanBeTrainedWithAdaptersInEveryFamily) {
  for (const auto& family : testing::family_cases()) {
    for (const auto format : {QuantFormat::Nf4, QuantFormat::Int8}) {
      const auto model =
          load_model(testing::model_folder(family),
                     {.quantization = QuantizationConfig{.scheme = {.format = format}}})
              .model;
      add_lora(*model, {}, 1);
      testing::shake(*model);
      model->train();
      const auto step = testing::step_of(*model, plain_input());
      for (const auto& [name, gradient] : step.gradients) {
        EXPECT_GT(gradient.abs().max().item<double>(), 0) << family << " " << name;
      }
    }
  }
}

TEST(QuantizedModels, WithoutAdaptersGiveTheReference) {
  const auto model = testing::open_adapted("llama_nf4");
  EXPECT_TRUE(bitwise_equal(testing::logits_of(*model, plain_input(), AdapterUse::Off),
                            testing::logits_of(*open_quantized("llama_nf4"), plain_input())));
}

TEST(QuantizedModels, KeepTheirCodesWhenTheTypeOfParametersChanges) {
  const auto model = open_quantized("llama_nf4");
  const auto weights = [&] { return linears_of(*model).front().second->quantized()->packed; };
  const auto before = weights();
  model->to(at::kBFloat16);
  EXPECT_EQ(model->dtype(), at::kBFloat16);
  EXPECT_TRUE(bitwise_equal(weights(), before));
  EXPECT_EQ(testing::logits_of(*model, plain_input()).scalar_type(), at::kBFloat16);
}

// In its compute type, as config.json says; the result has the type of the input.
TEST(QuantizedModels, ComputeInTheirOwnTypeUnderAutocast) {
  const auto model = open_quantized("llama_nf4");
  const auto [path, linear] = linears_of(*model).front();
  const auto x = torch::randn({3, 24});
  const Pass pass{};
  const auto exact = linear->forward(x, pass);
  const AutocastScope autocast(c10::kCPU, at::kBFloat16, /*enabled=*/true);
  EXPECT_TRUE(bitwise_equal(linear->forward(x, pass), exact));
  linear->set_quantized(linear->quantized(), std::nullopt);
  EXPECT_EQ(linear->forward(x, pass).scalar_type(), at::kBFloat16);
}

TEST(QuantizedModels, LeaveTheModulesAloneThatAreSkipped) {
  const QuantizationConfig config{.skip_modules = {"down_proj", "model.layers.0.self_attn"}};
  const auto model = load_model(quant_folder("llama"), {.quantization = config}).model;
  for (const auto& [path, linear] : linears_of(*model)) {
    const bool is_skipped = path == "lm_head" || path.ends_with("down_proj") ||
                            path.starts_with("model.layers.0.self_attn.");
    EXPECT_EQ(linear->quantized() == nullptr, is_skipped) << path;
  }
  EXPECT_TRUE(contains(message_of<c10::Error>([] {
                         load_model(quant_folder("llama"),
                                    {.quantization = QuantizationConfig{.skip_modules = {"dwn"}}});
                       }),
                       "\"dwn\" matches no linear layer"));
}

TEST(QuantizedModels, AreQuantizedLayerByLayer) {
  track_cpu_memory();
  const testing::TemporaryFolder folder;
  {
    Model model(testing::wide_config(), HeadKind::CausalLm);
    model.initialize(1);
    save_model(model, folder.path());
  }
  const int64_t before = live_bytes(at::kCPU);
  reset_peak_bytes(at::kCPU);
  const auto model = load_model(folder.path(), {.quantization = QuantizationConfig{}}).model;
  const int64_t held = live_bytes(at::kCPU) - before;
  const int64_t layer = int64_t{512} * 128 * 4;
  EXPECT_LT(peak_bytes(at::kCPU) - before, held + 3 * layer);
  EXPECT_LT(held, 8 * 3 * layer / 4);
}

TEST(QuantizedModels, CannotBeTrainedAsAWhole) {
  const auto model = open_quantized("llama_nf4");
  LoraConfig config;
  config.targets = std::vector<std::string>{"q_proj"};
  config.modules_to_save = {"down_proj"};
  EXPECT_TRUE(contains(message_of<c10::Error>([&] { add_lora(*model, config, 1); }),
                       "model.layers.0.mlp.down_proj is quantised"));
}

TEST(QuantizedModels, AreQuantizedOnce) {
  EXPECT_TRUE(contains(message_of<c10::Error>([] {
                         load_model(quant_folder("llama_nf4"),
                                    {.quantization = QuantizationConfig{}});
                       }),
                       "is quantised already (nf4, double quantisation)"));
  const auto model = open_quantized("llama_nf4");
  EXPECT_TRUE(
      contains(message_of<c10::Error>([&] { quantize_model(*model, {}); }), "quantised already"));
  const auto adapted = load_model(quant_folder("llama")).model;
  add_lora(*adapted, {}, 1);
  EXPECT_TRUE(
      contains(message_of<c10::Error>([&] { quantize_model(*adapted, {}); }), "without adapters"));
  EXPECT_TRUE(contains(
      message_of<c10::Error>([] { load_model(quant_folder("llama_nf4"), {.mapped = true}); }),
      "fsdp cannot shard a quantised model"));
}

}  // namespace
}  // namespace reprise
