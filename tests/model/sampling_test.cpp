// Filters over logits, against transformers' logits processors.
#include "support/fixtures.h"
#include "support/tensors.h"

#include <reprise/io/json.h>
#include <reprise/io/tensor_file.h>
#include <reprise/model/generate.h>

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>

namespace reprise {
namespace {

constexpr float kRuledOut = -std::numeric_limits<float>::infinity();

class SamplingFixture : public ::testing::Test {
 protected:
  at::Tensor tensor(const std::string& name) const {
    const auto* info = file_.find(name);
    TORCH_CHECK(info != nullptr, "fixture has no tensor ", name);
    return file_.view(*info);
  }
  Json settings() const { return parse_json(file_.metadata().at("settings"), "settings"); }

  static SamplingOptions options_of(const Json& settings) {
    SamplingOptions options;
    options.temperature = settings.value("temperature", 0.0);
    options.top_k = settings.value("top_k", int64_t{0});
    options.top_p = settings.value("top_p", 1.0);
    options.min_p = settings.value("min_p", 0.0);
    options.repetition_penalty = settings.value("repetition_penalty", 1.0);
    return options;
  }

  void expect_filtered(const at::Tensor& logits,
                       const Json& settings,
                       const std::string& expected_name) const {
    const auto found = filter_logits(logits, tensor("input_ids"), options_of(settings));
    const auto expected = tensor(expected_name);
    EXPECT_TRUE(at::equal(found == kRuledOut, expected == kRuledOut)) << expected_name;
    EXPECT_TRUE(at::allclose(found, expected, /*rtol=*/1e-6, /*atol=*/0)) << expected_name;
  }

 private:
  TensorFile file_{testing::fixtures() / "sampling" / "expected.safetensors"};
};

TEST_F(SamplingFixture, EqualsTransformersInEveryCase) {
  const Json cases = settings();
  ASSERT_GE(cases.size(), 9U);
  for (const auto& [name, values] : cases.items()) {
    expect_filtered(tensor("logits"), values, name);
  }
}

TEST_F(SamplingFixture, KeepsAllThatTieForTopK) {
  expect_filtered(tensor("tied.logits"), settings()["top_k"], "tied.top_k");
}

TEST(FilterLogits, DoesNotPenalizePadding) {
  const auto logits = torch::tensor({{1.0F, -1.0F, 2.0F}});
  const auto found = filter_logits(
      logits, torch::tensor({{int64_t{-1}, int64_t{1}}}), {.repetition_penalty = 2.0});
  EXPECT_TRUE(at::equal(found, torch::tensor({{1.0F, -2.0F, 2.0F}})));
}

TEST(FilterLogits, LeavesItsInputAsItWas) {
  const auto logits = torch::randn({3, 10});
  const auto before = logits.clone();
  filter_logits(
      logits,
      torch::zeros({3, 1}, at::kLong),
      {.temperature = 0.5, .top_k = 4, .top_p = 0.5, .min_p = 0.1, .repetition_penalty = 1.5});
  EXPECT_TRUE(at::equal(logits, before));
}

TEST(FilterLogits, AlwaysKeepsTheLikeliest) {
  const auto logits = torch::randn({5, 40});
  for (const auto& options : {SamplingOptions{.top_p = 1e-9},
                              SamplingOptions{.min_p = 1.0},
                              SamplingOptions{.top_k = 1}}) {
    const auto kept = filter_logits(logits, {}, options) != kRuledOut;
    EXPECT_TRUE(at::equal(kept.sum(1), torch::ones({5}, at::kLong)));
    EXPECT_TRUE(at::equal(kept.to(at::kByte).argmax(1), logits.argmax(1)));
  }
}

TEST(FilterLogits, ComputesInFloat32) {
  EXPECT_EQ(filter_logits(torch::randn({1, 4}, at::kBFloat16), {}, {}).scalar_type(), at::kFloat);
}

TEST(FilterLogits, RefusesValuesWithoutMeaning) {
  const auto logits = torch::zeros({1, 4});
  const std::map<std::string, SamplingOptions> wrong = {
      {"temperature", {.temperature = -1}},
      {"top_k", {.top_k = -1}},
      {"top_p", {.top_p = 0}},
      {"min_p", {.min_p = 1.5}},
      {"repetition_penalty", {.repetition_penalty = 0}},
  };
  for (const auto& [name, options] : wrong) {
    try {
      filter_logits(logits, {}, options);
      FAIL() << name;
    } catch (const c10::Error& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(filter_logits(logits, torch::tensor({{int64_t{4}}}), {.repetition_penalty = 2}),
               c10::Error);
}

}  // namespace
}  // namespace reprise
