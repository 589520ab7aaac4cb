// Adapters that peft wrote compute what peft computes, and are written again byte for byte.
#include "model/lora_case.h"
#include "support/parity.h"
#include "support/shifted_batch.h"
#include "support/temporary_folder.h"

#include <reprise/io/file.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::Batch;
using testing::bitwise_equal;
using testing::kBFloat16Factor;
using testing::kFloat32Bound;
using testing::relative_error;

class PeftAdapter : public ::testing::TestWithParam<std::string> {
 protected:
  PeftAdapter()
      : folder_(testing::fixtures() / "adapters" / GetParam()),
        expected_(folder_),
        is_score_(expected_.has("pooled_logits")),
        outputs_name_(is_score_ ? "pooled_logits" : "logits") {}

  std::shared_ptr<Model> open_base(at::ScalarType dtype = at::kFloat) const {
    const auto base = fs::path(LoraConfig::read(folder_).base_model).filename().string();
    return testing::open_model(
        base, {.head = is_score_ ? HeadKind::Score : HeadKind::CausalLm, .dtype = dtype});
  }
  std::shared_ptr<Model> open(const AdapterOptions& options = {},
                              at::ScalarType dtype = at::kFloat) const {
    auto model = open_base(dtype);
    load_adapter(*model, folder_, options);
    return model;
  }
  Batch batch(const Model& model, int64_t step = 0) const {
    return testing::shifted_batch(expected_, model.config().vocabulary, step);
  }
  at::Tensor outputs(Model& model, const ModelInput& input) const {
    return is_score_ ? model.score(input) : model.forward(input);
  }
  // Logits at attended positions, or one score for each row.
  at::Tensor attended(const at::Tensor& logits) const {
    return is_score_ ? logits : logits.index({expected_["attention_mask"].to(at::kBool)});
  }

  // Outputs, loss and gradients, by the names of the fixture.
  std::map<std::string, at::Tensor> measure(Model& model, const Batch& batch) const {
    model.zero_grad();
    const auto logits = outputs(model, batch.input);
    const auto loss = is_score_ ? at::mse_loss(logits.squeeze(-1).to(at::kFloat), batch.labels)
                                : next_token_loss(logits, batch.labels);
    loss.backward();
    std::map<std::string, at::Tensor> result = {{outputs_name_, attended(logits)}, {"loss", loss}};
    for (const auto& [name, parameter] : trained_parameters(model)) {
      result["grad." + name] = parameter.grad().clone();
    }
    return result;
  }

  fs::path folder_;
  testing::Expected expected_;
  bool is_score_;
  std::string outputs_name_;
};

TEST_P(PeftAdapter, GivesTheLogitsLossAndGradientsThatPeftGives) {
  const auto model = open({.is_trainable = true});
  const auto found = measure(*model, batch(*model));
  EXPECT_LE(relative_error(found.at(outputs_name_), attended(expected_[outputs_name_])),
            kFloat32Bound);
  EXPECT_LE(relative_error(found.at("loss"), expected_["loss"]), kFloat32Bound);
  const auto gradients = expected_.gradients();
  EXPECT_EQ(found.size(), gradients.size() + 2) << "other parameters are trained than peft trains";
  double worst = 0;
  for (const auto& name : gradients) {
    ASSERT_TRUE(found.contains("grad." + name)) << name;
    const double error = relative_error(found.at("grad." + name), expected_["grad." + name]);
    EXPECT_LE(error, kFloat32Bound) << name;
    worst = std::max(worst, error);
  }
  std::printf("%-24s worst of %zu gradients %.1e\n", GetParam().c_str(), gradients.size(), worst);
}

TEST_P(PeftAdapter, StaysInFloat32OnABFloat16BaseAndErrsAtMostTwiceAsMuchAsPeft) {
  const auto exact_model = open({.is_trainable = true});
  const auto model = open({.is_trainable = true}, at::kBFloat16);
  for (const auto& [name, parameter] : trained_parameters(*model)) {
    const bool is_adapter = name.find("lora_") != std::string::npos;
    EXPECT_EQ(parameter.scalar_type(), is_adapter ? at::kFloat : at::kBFloat16) << name;
  }
  std::map<std::string, double> errors;
  for (int64_t step = 0; step < testing::kRoundingBatches; ++step) {
    const auto moved = batch(*model, step);
    const auto rounded = measure(*model, moved);
    for (const auto& [name, exact] : measure(*exact_model, moved)) {
      errors[name] += relative_error(rounded.at(name), exact) / testing::kRoundingBatches;
    }
  }
  double worst = 0;
  for (const auto& [name, error] : errors) {
    const double ratio = error / expected_.bfloat16_error(name);
    EXPECT_LE(ratio, kBFloat16Factor) << name;
    worst = std::max(worst, ratio);
  }
  std::printf("%-24s bfloat16: worst error %.2f of peft's\n", GetParam().c_str(), worst);
}

TEST_P(PeftAdapter, IsWrittenAgainByteForByte) {
  const auto model = open_base();
  const auto config = load_adapter(*model, folder_);
  const testing::TemporaryFolder out;
  save_adapter(*model, out.path(), config);
  EXPECT_EQ(read_file(out.path() / "adapter_model.safetensors"),
            read_file(folder_ / "adapter_model.safetensors"));
  // As text, so that the order of the keys counts.
  EXPECT_EQ(read_json(out.path() / "adapter_config.json").dump(),
            read_json(folder_ / "adapter_config.json").dump());
}

TEST_P(PeftAdapter, MergesIntoTheWeightsThatPeftMergesInto) {
  const auto model = open();
  const torch::NoGradGuard no_grad;
  const auto input = batch(*model).input;
  const auto before = attended(outputs(*model, input));
  merge_lora(*model);
  EXPECT_FALSE(has_lora(*model));
  EXPECT_LE(relative_error(attended(outputs(*model, input)), before), kFloat32Bound);
  size_t compared = 0;
  for (const auto& item : model->named_parameters()) {
    if (expected_.has("merged." + item.key())) {
      EXPECT_LE(relative_error(item.value(), expected_["merged." + item.key()]), 1e-6);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 1u);
}

TEST_P(PeftAdapter, LeavesTheBaseAsItIsWhenSwitchedOff) {
  const auto model = open_base();
  const auto input = batch(*model).input;
  const auto base = testing::logits_of(*model, input);
  load_adapter(*model, folder_);
  EXPECT_TRUE(bitwise_equal(testing::logits_of(*model, input, AdapterUse::Off), base));
  EXPECT_FALSE(torch::equal(testing::logits_of(*model, input), base));
}

std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(testing::fixtures() / "adapters")) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Fixtures, PeftAdapter, ::testing::ValuesIn(cases()), [](const auto& test) {
  return test.param;
});

}  // namespace
}  // namespace reprise
