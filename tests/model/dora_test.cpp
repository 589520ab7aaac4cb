// DoRA: magnitudes that begin as norms, the formula with dropout and without, what backward keeps;
// and for every variant of LoRA what holds for adapters: off, reference, merged, saved.
#include "model/layers/linear.h"
#include "model/lora_case.h"
#include "ops/lora_norms.h"
#include "support/parity.h"
#include "support/temporary_folder.h"

#include <reprise/memory.h>

#include <gtest/gtest.h>

#include <filesystem>

namespace reprise {
namespace {

using testing::bitwise_equal;
using testing::contains;
using testing::logits_of;
using testing::open_model;
using testing::plain_input;
using testing::relative_error;

LoraConfig dora() {
  LoraConfig config;
  config.use_dora = true;
  return config;
}

// A layer with a branch of random values.
struct Layer {
  static constexpr double kScale = 1.5, kDropout = 0.4;

  explicit Layer(WeightLayout layout, bool has_bias = true, double dropout = kDropout)
      : linear({.in = 6, .out = 5, .has_bias = has_bias, .layout = layout}, at::kFloat),
        branch(std::make_shared<LoraBranch>(
            LoraBranch::Shape{.in = 6, .out = 5, .rank = 2, .has_magnitude = true},
            kScale,
            dropout,
            at::kFloat)) {
    const torch::NoGradGuard no_grad;
    for (const auto& module : {static_cast<torch::nn::Module*>(&linear),
                               static_cast<torch::nn::Module*>(branch.get())}) {
      for (auto& parameter : module->parameters()) {
        parameter.normal_();
      }
    }
    linear.set_branch(branch);
  }

  at::Tensor weight() const { return linear.matrix(AdapterUse::Off).weight; }
  at::Tensor norms() const {
    return (weight() + kScale * branch->b.mm(branch->a)).norm(2, 1).detach();
  }
  // The formula, for a dropped input.
  at::Tensor expected(const at::Tensor& x, const at::Tensor& dropped) const {
    const auto factor = branch->magnitude / norms();
    const auto base = at::linear(x, weight(), linear.bias);
    const auto low_rank = dropped.mm(branch->a.t()).mm(branch->b.t()) * kScale;
    return base + (factor - 1) * dropped.mm(weight().t()) + factor * low_rank;
  }
  std::vector<at::Tensor> gradients_of(const at::Tensor& y, const at::Tensor& x) const {
    const auto sum = (y * torch::arange(y.numel()).view(y.sizes())).sum();
    return torch::autograd::grad({sum}, {x, branch->a, branch->b, branch->magnitude});
  }

  Linear linear;
  std::shared_ptr<LoraBranch> branch;
};

TEST(DoraLayer, ComputesItsFormulaWithTheNormAsAConstant) {
  for (const auto layout : {WeightLayout::OutIn, WeightLayout::InOut}) {
    for (const bool has_bias : {false, true}) {
      for (const bool drops : {false, true}) {
        torch::manual_seed(3);
        const Layer layer(layout, has_bias);
        const auto x = torch::randn({4, 6}).requires_grad_();
        torch::manual_seed(4);
        const auto found = layer.linear.forward(x, {.training = drops});
        torch::manual_seed(4);
        const auto dropped = at::dropout(x, Layer::kDropout, drops);
        const auto expected = layer.expected(x, dropped);
        EXPECT_TRUE(torch::allclose(found, expected, 1e-5, 1e-5));
        const auto gradients = layer.gradients_of(found, x);
        const auto wanted = layer.gradients_of(expected, x);
        for (size_t i = 0; i < wanted.size(); ++i) {
          EXPECT_TRUE(torch::allclose(gradients[i], wanted[i], 1e-4, 1e-4)) << "input " << i;
        }
      }
    }
  }
}

TEST(DoraLayer, AddsToAResidual) {
  const Layer layer(WeightLayout::OutIn);
  const auto x = torch::randn({4, 6}), residual = torch::randn({4, 5});
  EXPECT_TRUE(bitwise_equal(layer.linear.forward(x, {}, {.residual = residual}),
                            residual + layer.linear.forward(x, {})));
}

TEST(DoraLayer, KeepsNothingOfTheWeightsSizeForBackward) {
  track_cpu_memory();
  constexpr int64_t kWidth = 2048, kRows = 2, kRank = 4;
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const double dropout : {0.0, 0.5}) {
      const auto options = at::TensorOptions(at::kFloat);
      Linear linear({.in = kWidth, .out = kWidth}, options.dtype(type));
      linear.weight.requires_grad_(false);
      linear.set_branch(std::make_shared<LoraBranch>(
          LoraBranch::Shape{kWidth, kWidth, kRank, /*has_magnitude=*/true}, 1, dropout, options));
      const auto x = torch::randn({kRows, kWidth}, at::dtype(type).requires_grad(true));
      const int64_t before = live_bytes(at::kCPU);
      const auto y = linear.forward(x, {.training = true});
      EXPECT_TRUE(y.requires_grad());
      EXPECT_LT(live_bytes(at::kCPU) - before, kWidth * kWidth / 8) << type << " " << dropout;
    }
  }
}

TEST(DoraNorms, AreThoseOfRowsInEveryLayoutAndSize) {
  const auto check = [](const at::Tensor& weight, int64_t rank) {
    const auto a = torch::randn({rank, weight.size(1)}), b = torch::randn({weight.size(0), rank});
    const auto expected = (weight.to(at::kFloat) + 0.5 * b.mm(a)).norm(2, 1);
    EXPECT_TRUE(torch::allclose(ops::lora_norms(weight, a, b, 0.5), expected, 1e-5));
  };
  check(torch::randn({5, 7}), 3);
  check(torch::randn({7, 5}).t(), 3);
  check(torch::randn({5, 7}, at::kBFloat16), 2);
  check(torch::randn({3, (int64_t{1} << 21) + 1}), 1);  // a row at a time
}

TEST(DoraNorms, OfZerosLeaveFiniteFactors) {
  const Layer layer(WeightLayout::OutIn);
  const torch::NoGradGuard no_grad;
  layer.weight()[2].zero_();
  layer.branch->b[2].zero_();
  layer.branch->magnitude.copy_(layer.branch->row_norms(layer.weight()));
  EXPECT_TRUE(torch::equal(layer.branch->row_factors(layer.weight()), torch::ones(5)));
}

TEST(FreshDora, ComputesWhatTheModelDid) {
  for (const auto& family : testing::family_cases()) {
    auto model = open_model(family);
    const auto before = logits_of(*model, plain_input());
    add_lora(*model, dora(), 3);
    EXPECT_TRUE(torch::allclose(logits_of(*model, plain_input()), before, 1e-5, 1e-5)) << family;
  }
}

TEST(FreshDora, TrainsTheNormsOfTheBaseWeightsByPeftsNames) {
  for (const std::string name : {"llama", "gpt2"}) {
    auto model = open_model(name);
    const auto paths = add_lora(*model, dora(), 3);
    const auto trained = trained_parameters(*model);
    EXPECT_EQ(trained.size(), 3 * paths.size());
    const auto parameters = model->named_parameters();
    for (const auto& path : paths) {
      const int64_t row = name == "gpt2" ? 0 : 1;  // GPT-2 stores (in, out)
      const auto found = std::find_if(trained.begin(), trained.end(), [&](const auto& item) {
        return item.first == "base_model.model." + path + ".lora_magnitude_vector";
      });
      ASSERT_NE(found, trained.end()) << path;
      EXPECT_TRUE(
          torch::allclose(found->second, parameters[path + ".weight"].norm(2, row), 1e-5, 0));
    }
  }
}

class LoraVariant : public ::testing::TestWithParam<std::string> {
 protected:
  static LoraConfig config() {
    auto config = testing::lora_variant(GetParam());
    config.dropout = 0;
    return config;
  }
  static std::shared_ptr<Model> adapted(const std::string& family,
                                        at::ScalarType dtype = at::kFloat) {
    auto model = open_model(family, {.dtype = dtype});
    add_lora(*model, config(), 1);
    const torch::NoGradGuard no_grad;
    torch::manual_seed(7);
    for (auto& [name, parameter] : trained_parameters(*model)) {
      parameter.add_(0.1 * torch::randn_like(parameter));
    }
    return model;
  }
  static std::vector<at::Tensor> base_weights(const Model& model) {
    std::vector<at::Tensor> weights;
    for (const auto& item : model.named_parameters()) {
      if (item.key().find(".lora.") == std::string::npos) {
        weights.push_back(item.value().detach().clone());
      }
    }
    return weights;
  }
};

TEST_P(LoraVariant, OffIsTheBaseModelToTheLastBit) {
  for (const auto& family : testing::family_cases()) {
    const auto base = logits_of(*open_model(family), plain_input());
    const auto model = adapted(family);
    for (const auto use : {AdapterUse::Off, AdapterUse::Reference}) {
      EXPECT_TRUE(bitwise_equal(logits_of(*model, plain_input(), use), base)) << family;
    }
    EXPECT_FALSE(torch::allclose(logits_of(*model, plain_input()), base, 1e-3, 1e-3)) << family;
  }
}

TEST_P(LoraVariant, GivesTheLogitsOfItsAdaptersWhenMerged) {
  for (const auto& family : testing::family_cases()) {
    const auto model = adapted(family);
    const auto expected = logits_of(*model, plain_input());
    merge_lora(*model);
    EXPECT_FALSE(has_lora(*model));
    EXPECT_LE(relative_error(logits_of(*model, plain_input()), expected), 1e-4) << family;
  }
}

TEST_P(LoraVariant, LeavesTheWeightsAsTheyWereAfterMergingForAWhile) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const std::string family : {"llama", "gpt2", "qwen3"}) {
      const auto model = adapted(family, dtype);
      const auto weights = base_weights(*model);
      const auto expected = logits_of(*model, plain_input());
      {
        const MergedLora merged(*model);
        EXPECT_LE(relative_error(logits_of(*model, plain_input()), expected),
                  dtype == at::kFloat ? 1e-4 : 0.25)
            << family;
      }
      testing::expect_bitwise_equal(base_weights(*model), weights);
      EXPECT_TRUE(bitwise_equal(logits_of(*model, plain_input()), expected)) << family;
    }
  }
}

TEST_P(LoraVariant, IsSavedForTheUntouchedBaseModel) {
  for (const std::string family : {"llama", "gpt2", "chatglm2"}) {
    const auto model = adapted(family);
    const testing::TemporaryFolder folder;
    save_adapter(*model, folder.path(), config());
    const auto other = open_model(family);
    load_adapter(*other, folder.path(), {.is_trainable = true, .keep_reference = true});
    const auto expected = logits_of(*model, plain_input());
    const auto found = logits_of(*other, plain_input());
    EXPECT_LE(relative_error(found, expected), 1e-4) << family;
    testing::step_of(*other, plain_input());
    testing::shake(*other);
    EXPECT_TRUE(bitwise_equal(logits_of(*other, plain_input(), AdapterUse::Reference), found))
        << family;
  }
}

TEST_P(LoraVariant, CanHaveTheHead) {
  auto model = open_model("qwen2");
  auto own = config();
  own.targets = std::vector<std::string>{"lm_head", "q_proj"};
  add_lora(*model, own, 0);
  const auto adapted = logits_of(*model, plain_input());
  model->compute_head_in_float32(true);
  EXPECT_LE(relative_error(logits_of(*model, plain_input()), adapted), 1e-4);
  const auto step = testing::step_of(*model, plain_input());
  for (const auto& [name, gradient] : step.gradients) {
    EXPECT_TRUE(gradient.defined()) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Variants,
                         LoraVariant,
                         ::testing::Values("lora", "dora", "pissa", "olora"),
                         [](const auto& test) { return test.param; });

TEST(DoraFolder, IsNotSavedWithAConfigWithoutDora) {
  auto model = open_model("llama");
  add_lora(*model, dora(), 0);
  const testing::TemporaryFolder folder;
  const auto message =
      testing::message_of<c10::Error>([&] { save_adapter(*model, folder.path(), {}); });
  EXPECT_TRUE(contains(message, "the adapter is DoRA")) << message;
}

TEST(DoraFolder, WithoutMagnitudesIsRefused) {
  const testing::TemporaryFolder folder;
  auto model = open_model("llama");
  add_lora(*model, {}, 0);
  save_adapter(*model, folder.path(), {});
  auto json = read_json(folder.path() / "adapter_config.json");
  json["use_dora"] = true;
  write_json(folder.path() / "adapter_config.json", json);
  auto other = open_model("llama");
  const auto message =
      testing::message_of<c10::Error>([&] { load_adapter(*other, folder.path()); });
  EXPECT_TRUE(contains(message, "lora_magnitude_vector is missing")) << message;
  EXPECT_FALSE(has_lora(*other));
}

}  // namespace
}  // namespace reprise
