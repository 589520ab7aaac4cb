// The law for quantised bases: the same loss and gradients, to the last bit, under every policy and
// with every variant of LoRA; and less is kept than by an unquantised base.
#include "model/quantized_case.h"
#include "support/parity.h"

#include <reprise/memory.h>

#include <gtest/gtest.h>

#include <tuple>

namespace reprise {
namespace {

using testing::expect_same_step;
using testing::kFloat32Bound;
using testing::plain_input;
using testing::relative_error;
using testing::step_of;

struct Mode {
  std::string name;
  BlockChoice blocks;
  CheckpointOptions options;
};

std::vector<Mode> modes() {
  std::vector<Mode> all{
      {"every_2", BlockChoice::every(2), {}},
      {"reentrant", BlockChoice::all(), {.use_reentrant = true}},
      {"values", BlockChoice::all(), {.determinism_check = DeterminismCheck::Values}}};
  for (const char* policy : {"full", "attention", "matmuls"}) {
    all.push_back({policy, BlockChoice::all(), checkpoint_options_named(policy)});
  }
  return all;
}

/// LoRA, DoRA and PiSSA.
std::vector<LoraConfig> variants() {
  std::vector<LoraConfig> all(3);
  all[1].use_dora = true;
  all[2].init = LoraInit::parse("pissa");
  for (auto& config : all) {
    config.rank = 3;
    config.dropout = 0.25;
  }
  return all;
}

std::string name_of_variant(const LoraConfig& config) {
  return config.use_dora ? "DoRA" : config.init.is_decomposition() ? "PiSSA" : "LoRA";
}

std::shared_ptr<Model> adapted(const std::string& family,
                               QuantFormat format,
                               const LoraConfig& config) {
  const bool is_int8 = format == QuantFormat::Int8;
  auto model =
      load_model(testing::model_folder(family),
                 {.quantization =
                      QuantizationConfig{.scheme = {.format = format, .double_quant = !is_int8}}})
          .model;
  model->train();
  add_lora(*model, config, 1);
  testing::shake(*model);
  return model;
}

using FamilyAndFormat = std::tuple<std::string, QuantFormat>;

class QuantizedFamily : public ::testing::TestWithParam<FamilyAndFormat> {};

TEST_P(QuantizedFamily, HasTheSameLossAndGradientsUnderEveryPolicy) {
  const auto [family, format] = GetParam();
  for (const auto& config : variants()) {
    const auto model = adapted(family, format, config);
    const auto plain = step_of(*model, plain_input());
    for (const auto& mode : modes()) {
      SCOPED_TRACE(name_of_variant(config) + ", " + mode.name);
      model->enable_checkpointing(mode.blocks, mode.options);
      expect_same_step(step_of(*model, plain_input()), plain);
    }
  }
}

// The same adapters on the weights that the codes stand for.
TEST_P(QuantizedFamily, GivesWhatItsDequantizedWeightsGive) {
  const auto [family, format] = GetParam();
  for (const auto& config : variants()) {
    SCOPED_TRACE(name_of_variant(config));
    const auto model = adapted(family, format, config);
    model->eval();
    const auto quantized = step_of(*model, plain_input());
    dequantize_model(*model, at::kFloat);
    const auto full = step_of(*model, plain_input());
    EXPECT_LT(relative_error(quantized.loss, full.loss), kFloat32Bound);
    ASSERT_EQ(quantized.gradients.size(), full.gradients.size());
    for (const auto& [name, grad] : full.gradients) {
      EXPECT_LT(relative_error(quantized.gradients.at(name), grad), kFloat32Bound) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats,
                         QuantizedFamily,
                         ::testing::Combine(::testing::ValuesIn(testing::family_cases()),
                                            ::testing::Values(QuantFormat::Nf4, QuantFormat::Int8)),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + name_of(std::get<1>(test.param));
                         });

int64_t kept_bytes(Model& model) {
  const int64_t before = live_bytes(at::kCPU);
  const auto loss = next_token_loss(model.forward(plain_input()), plain_input().input_ids);
  return live_bytes(at::kCPU) - before;
}

// Of a model whose weights are much larger than what a few tokens keep.
TEST(QuantizedCheckpointing, KeepsNoDequantizedWeightForBackward) {
  track_cpu_memory();
  LoraConfig dora;
  dora.use_dora = true;
  for (const auto& [format, config] : {std::pair(QuantFormat::Nf4, LoraConfig()),
                                       std::pair(QuantFormat::Int8, LoraConfig()),
                                       std::pair(QuantFormat::Nf4, dora)}) {
    Model model(testing::wide_config(), HeadKind::CausalLm);
    model.initialize(1);
    quantize_model(model, {.scheme = {.format = format}});
    add_lora(model, config, 1);
    const int64_t weights = quantized_count(model) * 4;
    const int64_t whole = kept_bytes(model);
    EXPECT_LT(whole, weights / 2);
    model.enable_checkpointing();
    EXPECT_LT(kept_bytes(model), whole / 2);
  }
}

}  // namespace
}  // namespace reprise
