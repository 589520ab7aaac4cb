// Models of tests/fixtures, opened and stepped.
#pragma once

#include "support/fixtures.h"
#include "support/tensors.h"

#include <reprise/loss/next_token.h>
#include <reprise/model/pretrained.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace reprise::testing {

/// One causal model of each family, ChatGLM among them.
inline const std::vector<std::string>& family_cases() {
  static const std::vector<std::string> cases = {
      "llama",        "mistral",    "qwen2",      "qwen3",         "gpt2",   "gpt_neox",
      "chatglm2",     "gemma",      "gemma2",     "gemma3",        "phi3",   "smollm3",
      "olmo2",        "olmo3",      "granite",    "glm",           "glm4",   "cohere",
      "cohere2",      "ministral",  "ministral3", "phi",           "falcon", "falcon_grouped",
      "falcon_alibi", "bloom",      "opt",        "opt_post_norm", "gptj",   "gpt_neo",
      "stablelm",     "starcoder2", "nemotron",   "gpt_bigcode"};
  return cases;
}

inline std::filesystem::path model_folder(const std::string& name) {
  return fixtures() / "models" / name;
}

inline std::shared_ptr<Model> open_model(const std::string& name, const LoadOptions& options = {}) {
  return load_model(model_folder(name), options).model;
}

/// Of the fixture with this name.
inline HeadKind head_of(const std::string& name) {
  if (name.find("_score") != std::string::npos) {
    return HeadKind::Score;
  }
  return name.ends_with("_token_classes") ? HeadKind::TokenClasses : HeadKind::CausalLm;
}

/// Loss and all gradients, from a fixed state of the random numbers.
inline std::vector<at::Tensor> loss_and_gradients(Model& model, const ModelInput& input) {
  torch::manual_seed(7);
  model.zero_grad();
  const auto loss = next_token_loss(model.forward(input), input.input_ids);
  loss.backward();
  std::vector<at::Tensor> results = {loss.detach()};
  for (const auto& parameter : model.parameters()) {
    results.push_back(parameter.grad().clone());
  }
  return results;
}

}  // namespace reprise::testing
