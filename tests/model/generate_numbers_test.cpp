// Which random numbers a sequence gets, which log-probabilities come with it, and the shortest
// results: what online training relies on.
#include "support/fixtures.h"
#include "support/tensors.h"

#include <reprise/model/generate.h>
#include <reprise/model/pretrained.h>

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace reprise {
namespace {

using Ids = std::vector<int64_t>;

const std::vector<Ids> kThreePrompts = {{5, 9, 3, 7, 11}, {4, 8}, {12, 6, 10}};

class GenerateNumbers : public ::testing::Test {
 protected:
  static GenerateOptions sampled(int64_t new_tokens, double temperature = 1) {
    GenerateOptions options;
    options.max_new_tokens = new_tokens;
    options.sampling.temperature = temperature;
    return options;
  }

  std::shared_ptr<Model> model_ = load_model(testing::fixtures() / "models" / "llama").model;
};

TEST_F(GenerateNumbers, PromptsKeepTheirNumbersInAnotherOrder) {
  auto options = sampled(8);
  const auto in_order = generate(*model_, kThreePrompts, options);
  options.prompt_numbers = {2, 0};
  const auto turned = generate(*model_, {kThreePrompts[2], kThreePrompts[0]}, options);
  EXPECT_EQ(turned[0].ids, in_order[2].ids);
  EXPECT_EQ(turned[1].ids, in_order[0].ids);
}

TEST_F(GenerateNumbers, SamplesMadeInTwoCallsAreThoseOfOne) {
  auto options = sampled(8);
  options.samples_per_prompt = 5;
  const auto together = generate(*model_, {kThreePrompts[0]}, options);
  options.samples_per_prompt = 2;
  options.first_sample = 3;
  const auto last = generate(*model_, {kThreePrompts[0]}, options);
  EXPECT_EQ(last[0].ids, together[3].ids);
  EXPECT_EQ(last[1].ids, together[4].ids);
}

TEST_F(GenerateNumbers, RefusesAnotherCountOfNumbersThanOfPrompts) {
  auto options = sampled(1);
  options.prompt_numbers = {1, 2};
  try {
    generate(*model_, kThreePrompts, options);
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("prompt_numbers"), std::string::npos);
  }
}

// The log-probability of the first new token, of logits / temperature.
float logprob_at(Model& model, const Ids& prompt, int64_t token, double temperature) {
  const torch::NoGradGuard no_grad;
  ModelInput input;
  input.input_ids = torch::tensor(prompt).unsqueeze(0);
  const auto logits = model.forward(input).select(1, -1).squeeze(0);
  return (logits / temperature).log_softmax(-1)[token].item<float>();
}

TEST_F(GenerateNumbers, LogprobsAreOfTheUnfilteredDistributionAtTheAskedTemperature) {
  constexpr double kTemperature = 0.5;
  auto options = sampled(1, kTemperature);
  options.sampling.top_k = 3;
  options.sampling.top_p = 0.9;
  for (const bool at_temperature : {false, true}) {
    options.logprobs_at_temperature = at_temperature;
    const auto found = generate(*model_, kThreePrompts, options);
    for (size_t i = 0; i < found.size(); ++i) {
      const double temperature = at_temperature ? kTemperature : 1.0;
      EXPECT_NEAR(found[i].logprobs[0],
                  logprob_at(*model_, kThreePrompts[i], found[i].ids[0], temperature),
                  1e-5)
          << "prompt " << i << ", temperature " << temperature;
    }
  }
}

TEST_F(GenerateNumbers, GreedyLogprobsHaveNoTemperature) {
  auto options = sampled(1, 0);
  options.logprobs_at_temperature = true;
  const auto found = generate(*model_, {kThreePrompts[0]}, options)[0];
  EXPECT_NEAR(found.logprobs[0], logprob_at(*model_, kThreePrompts[0], found.ids[0], 1), 1e-5);
}

TEST_F(GenerateNumbers, TheFirstTokenMayBeTheStopAndIsKept) {
  auto options = sampled(6, 0);
  const int64_t first = generate(*model_, {kThreePrompts[0]}, options)[0].ids[0];
  options.stop_ids = {first};
  const auto found = generate(*model_, {kThreePrompts[0]}, options)[0];
  EXPECT_EQ(found.ids, Ids{first});
  EXPECT_EQ(found.logprobs.size(), 1U);
  EXPECT_TRUE(found.is_finished);
}

}  // namespace
}  // namespace reprise
