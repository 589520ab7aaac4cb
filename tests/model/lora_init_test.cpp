// How adapters begin: as peft begins them, with its loss and gradients, and what is saved of those
// that begin with a part of the base weights.
#include "model/lora_case.h"
#include "support/parity.h"
#include "support/shifted_batch.h"
#include "support/temporary_folder.h"

#include <reprise/io/file.h>

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::bitwise_equal;
using testing::contains;
using testing::kFloat32Bound;
using testing::logits_of;
using testing::open_model;
using testing::plain_input;
using testing::relative_error;
using testing::targeting_modules;

LoraConfig beginning_as(const std::string& name, std::vector<std::string> targets = {"q_proj"}) {
  auto config = targeting_modules(std::move(targets));
  config.init = LoraInit::parse(name);
  return config;
}

at::Tensor matrix_of(const Model& model, const std::string& name) {
  return model.named_parameters()["model.layers.0.self_attn.q_proj.lora." + name];
}

/// A case of tests/fixtures/lora_init.
class PeftInit : public ::testing::TestWithParam<std::string> {
 protected:
  PeftInit() : folder_(testing::fixtures() / "lora_init" / GetParam()), expected_(folder_) {
    const auto saved = LoraConfig::read(folder_);
    config_ = saved;
    config_.source = {};
    config_.rank = saved.rank / 2;
    config_.alpha = saved.alpha / (saved.use_rslora ? std::sqrt(2.0) : 2.0);
    config_.init = LoraInit::parse(GetParam().substr(GetParam().find('_') + 1));
    model_ = open_model(fs::path(saved.base_model).filename().string());
    add_lora(*model_, config_, 0);
  }

  // A singular vector has either sign: that of peft's, for each row of A and column of B.
  void take_peft_signs() {
    const torch::NoGradGuard no_grad;
    std::map<std::string, at::Tensor> trained;
    for (const auto& [name, parameter] : trained_parameters(*model_)) {
      trained[name] = parameter;
    }
    for (auto& [name, a] : trained) {
      if (name.ends_with("lora_A.weight")) {
        const auto signs = (a * expected_["start." + name]).sum(1).sign();
        a.mul_(signs.unsqueeze(1));
        trained.at(name.substr(0, name.size() - 13) + "lora_B.weight").mul_(signs);
      }
    }
  }

  fs::path folder_;
  testing::Expected expected_;
  LoraConfig config_;
  std::shared_ptr<Model> model_;
};

TEST_P(PeftInit, IsWhatPeftBeginsWith) {
  take_peft_signs();
  for (const auto& [name, parameter] : trained_parameters(*model_)) {
    EXPECT_LE(relative_error(parameter, expected_["start." + name]), kFloat32Bound) << name;
  }
}

TEST_P(PeftInit, GivesPeftsLossAndGradientsAfterItHasMoved) {
  take_peft_signs();
  {
    const torch::NoGradGuard no_grad;
    for (auto& [name, parameter] : trained_parameters(*model_)) {
      parameter.mul_(name.ends_with("lora_A.weight") ? 1.25 : 0.75);
    }
  }
  const auto batch = testing::shifted_batch(expected_, model_->config().vocabulary, 0);
  const auto attended = expected_["attention_mask"].to(at::kBool);
  const auto logits = model_->forward(batch.input);
  const auto loss = next_token_loss(logits, batch.labels);
  loss.backward();
  EXPECT_LE(relative_error(logits.index({attended}), expected_["logits"].index({attended})),
            kFloat32Bound);
  EXPECT_LE(relative_error(loss, expected_["loss"]), kFloat32Bound);
  EXPECT_EQ(expected_.gradients().size(), trained_parameters(*model_).size());
  for (const auto& [name, parameter] : trained_parameters(*model_)) {
    EXPECT_LE(relative_error(parameter.grad(), expected_["grad." + name]), kFloat32Bound) << name;
  }

  const testing::TemporaryFolder folder;
  save_adapter(*model_, folder.path(), config_);
  const auto own = LoraConfig::read(folder.path()), peft = LoraConfig::read(folder_);
  EXPECT_EQ(own.rank, peft.rank);
  EXPECT_DOUBLE_EQ(own.scale(), peft.scale());
  const TensorFile found(folder.path() / "adapter_model.safetensors");
  const TensorFile wanted(folder_ / "adapter_model.safetensors");
  ASSERT_EQ(found.tensors().size(), wanted.tensors().size());
  // peft's half of where the adapter began has the signs that ours had before they were changed.
  for (const auto& info : wanted.tensors()) {
    ASSERT_NE(found.find(info.name), nullptr) << info.name;
    EXPECT_LE(relative_error(found.view(*found.find(info.name)).abs(), wanted.view(info).abs()),
              kFloat32Bound)
        << info.name;
  }

  merge_lora(*model_);
  size_t compared = 0;
  for (const auto& item : model_->named_parameters()) {
    if (expected_.has("merged." + item.key())) {
      EXPECT_LE(relative_error(item.value(), expected_["merged." + item.key()]), kFloat32Bound);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 1U);
}

TEST_P(PeftInit, SavedByPeftFitsTheUntouchedBaseModel) {
  const auto model = open_model(fs::path(LoraConfig::read(folder_).base_model).filename().string());
  load_adapter(*model, folder_);
  const auto batch = testing::shifted_batch(expected_, model->config().vocabulary, 0);
  const auto attended = expected_["attention_mask"].to(at::kBool);
  EXPECT_LE(relative_error(logits_of(*model, batch.input).index({attended}),
                           expected_["logits"].index({attended})),
            kFloat32Bound);
}

INSTANTIATE_TEST_SUITE_P(Fixtures,
                         PeftInit,
                         ::testing::Values("llama_pissa", "llama_olora", "gpt2_pissa"),
                         [](const auto& test) { return test.param; });

TEST(Decomposition, LeavesTheBaseWeightsAndTheOutputsAsTheyAre) {
  for (const std::string name : {"pissa", "pissa_niter_2", "olora"}) {
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      auto model = open_model("llama", {.dtype = dtype});
      const auto before = logits_of(*model, plain_input());
      add_lora(*model, beginning_as(name, {"q_proj", "down_proj"}), 3);
      EXPECT_LE(relative_error(logits_of(*model, plain_input()), before),
                dtype == at::kFloat ? 1e-5 : 0.02)
          << name;
      EXPECT_TRUE(bitwise_equal(logits_of(*model, plain_input(), AdapterUse::Off), before)) << name;
    }
  }
}

TEST(RandomisedPissa, FindsTheLargestSingularValuesFromTheSeed) {
  const auto product = [](const std::string& name, uint64_t seed) {
    auto model = open_model("llama");
    auto config = beginning_as(name);
    config.rank = 2;
    add_lora(*model, config, seed);
    return matrix_of(*model, "B").mm(matrix_of(*model, "A")).detach();
  };
  const auto exact = product("pissa", 0);
  EXPECT_LE(relative_error(product("pissa_niter_40", 1), exact), 1e-3);
  EXPECT_TRUE(bitwise_equal(product("pissa_niter_1", 1), product("pissa_niter_1", 1)));
  EXPECT_FALSE(torch::equal(product("pissa_niter_1", 1), product("pissa_niter_1", 2)));
}

TEST(GaussianInit, HasTheDeviationOfPeftsAndAZeroB) {
  auto model = open_model("llama");
  auto config = beginning_as("gaussian");
  config.rank = 100;
  add_lora(*model, config, 5);
  EXPECT_NEAR(matrix_of(*model, "A").std().item<double>(), 0.01, 0.001);
  EXPECT_EQ(matrix_of(*model, "B").abs().max().item<double>(), 0);
}

TEST(OrthogonalInit, HasAProductOfZeroOfMatricesThatAreNot) {
  auto model = open_model("llama");
  add_lora(*model, beginning_as("orthogonal"), 5);
  const auto a = matrix_of(*model, "A"), b = matrix_of(*model, "B");
  EXPECT_NEAR(a.std().item<double>(), 0.1 * std::sqrt(0.5), 0.02);
  EXPECT_NEAR(b.std().item<double>(), 0.1 * std::sqrt(0.5), 0.02);
  EXPECT_LE(b.mm(a).abs().max().item<double>(), 1e-6);
}

TEST(LoraInit, OfRandomNumbersIsSavedByItsName) {
  for (const std::string name : {"gaussian", "orthogonal"}) {
    auto model = open_model("llama");
    add_lora(*model, beginning_as(name), 5);
    const testing::TemporaryFolder folder;
    save_adapter(*model, folder.path(), beginning_as(name));
    EXPECT_EQ(read_json(folder.path() / "adapter_config.json")["init_lora_weights"], name);
  }
}

TEST(LoraInit, ThatCannotBeIsRefusedBeforeTheModelChanges) {
  const auto refusal = [](const LoraConfig& config) {
    auto model = open_model("llama");
    const auto message = testing::message_of<c10::Error>([&] { add_lora(*model, config, 0); });
    EXPECT_FALSE(has_lora(*model));
    return message;
  };
  auto config = beginning_as("pissa");
  config.rank = 17;
  EXPECT_TRUE(contains(refusal(config), "expected a rank of at most 16, the smaller side of"));
  config = beginning_as("olora");
  config.use_dora = true;
  EXPECT_TRUE(contains(refusal(config), "expected no decomposition with use_dora, found olora"));
  config = beginning_as("orthogonal");
  config.rank = 3;
  EXPECT_TRUE(contains(refusal(config), "expected an even rank"));
  config = beginning_as("pissa");
  config.alpha = 0;
  EXPECT_TRUE(contains(refusal(config), "expected an alpha above 0"));
}

TEST(LoraInit, ThatTheAdapterDidNotHaveIsNotSaved) {
  auto model = open_model("llama");
  add_lora(*model, beginning_as("true"), 0);
  const testing::TemporaryFolder folder;
  const auto message = testing::message_of<c10::Error>(
      [&] { save_adapter(*model, folder.path(), beginning_as("pissa")); });
  EXPECT_TRUE(contains(message, "by the config the adapter began with pissa, which it did not"));
}

}  // namespace
}  // namespace reprise
