// What the tests of adapters do with models.
#pragma once

#include "model/model_case.h"
#include "support/bitwise.h"
#include "support/tensors.h"

#include <reprise/loss/next_token.h>
#include <reprise/model/lora.h>

#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {

/// Ids that every model of the fixtures knows.
inline ModelInput plain_input() {
  ModelInput input;
  input.input_ids = torch::arange(3, 23).reshape({2, 10});
  return input;
}

inline LoraConfig targeting_modules(std::vector<std::string> names) {
  LoraConfig config;
  config.targets = std::move(names);
  return config;
}

/// Each variant of LoRA by a name: on all projections, with dropout, which shows whether
/// recomputation draws the same numbers.
inline std::vector<std::pair<std::string, LoraConfig>> lora_variants() {
  LoraConfig config;
  config.rank = 3;
  config.alpha = 6;
  config.dropout = 0.25;
  std::vector<std::pair<std::string, LoraConfig>> variants = {{"lora", config}};
  config.use_dora = true;
  variants.emplace_back("dora", config);
  config.use_dora = false;
  config.init = LoraInit::parse("pissa");
  variants.emplace_back("pissa", config);
  config.init = LoraInit::parse("olora");
  config.use_rslora = true;
  variants.emplace_back("olora", config);
  return variants;
}

inline LoraConfig lora_variant(const std::string& name) {
  for (const auto& [own, config] : lora_variants()) {
    if (own == name) {
      return config;
    }
  }
  throw std::out_of_range(name);
}

/// Random values for all trained parameters: a fresh B would be zero, and with it half of what
/// is compared.
inline void shake(Model& model, uint64_t seed = 7) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(seed);
  for (auto& [name, parameter] : trained_parameters(model)) {
    parameter.normal_(0, 0.2);
  }
}

struct Step {
  at::Tensor loss;
  std::map<std::string, at::Tensor> gradients;  ///< of the trained parameters
};

/// Loss and gradients of one training step; the seed rules dropout.
inline Step step_of(Model& model, const ModelInput& input) {
  model.zero_grad();
  torch::manual_seed(11);
  const auto outputs = model.forward(input);
  Step step;
  step.loss = model.head() == HeadKind::CausalLm ? next_token_loss(outputs, input.input_ids)
                                                 : outputs.square().mean();
  step.loss.backward();
  for (const auto& [name, parameter] : trained_parameters(model)) {
    step.gradients[name] = parameter.grad().defined() ? parameter.grad().clone() : at::Tensor();
  }
  return step;
}

inline void expect_same_step(const Step& a, const Step& b) {
  EXPECT_TRUE(bitwise_equal(a.loss, b.loss));
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  for (const auto& [name, gradient] : a.gradients) {
    ASSERT_TRUE(b.gradients.contains(name)) << name;
    EXPECT_TRUE(gradient.defined()) << name;
    EXPECT_TRUE(bitwise_equal(gradient, b.gradients.at(name))) << name;
  }
}

inline at::Tensor logits_of(Model& model,
                            const ModelInput& input,
                            AdapterUse adapters = AdapterUse::Trained) {
  const torch::NoGradGuard no_grad;
  ModelInput used = input;
  used.adapters = adapters;
  return model.forward(used);
}

}  // namespace reprise::testing
