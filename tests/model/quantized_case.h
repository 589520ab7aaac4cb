// Models that transformers quantised, from tests/fixtures/quant.
#pragma once

#include "model/lora_case.h"
#include "support/fixtures.h"

#include <reprise/model/quantization.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace reprise::testing {

inline std::filesystem::path quant_folder(const std::string& name) {
  return fixtures() / "quant" / name;
}

/// Name of the quantised folder, and what load_model() needs to quantise its base to the same.
struct QuantizedCase {
  std::string name, base;
  QuantizationConfig config;
};

inline std::vector<QuantizedCase> quantized_cases() {
  const QuantScheme nf4{.format = QuantFormat::Nf4, .double_quant = true};
  return {
      {"llama_nf4", "llama", {.scheme = nf4, .compute_type = at::kFloat}},
      {"llama_fp4", "llama", {.scheme = {.format = QuantFormat::Fp4}, .compute_type = at::kFloat}},
      {"llama_int8", "llama", {.scheme = {.format = QuantFormat::Int8}}},
      {"gpt2_nf4", "gpt2", {.scheme = nf4, .compute_type = at::kFloat}}};
}

inline std::shared_ptr<Model> open_quantized(const std::string& name) {
  return load_model(quant_folder(name)).model;
}

inline std::string base_of(const std::string& name) {
  return name.substr(0, name.find('_'));
}

/// Of a llama with eight blocks whose weights are larger than those of the fixtures.
inline ModelConfig wide_config() {
  Json json = read_json(quant_folder("llama") / "config.json");
  json.update({{"hidden_size", 128},
               {"intermediate_size", 512},
               {"num_hidden_layers", 8},
               {"head_dim", 32}});
  return ModelConfig::from_json(json, "wide");
}

/// In train mode, with the adapter of its base.
inline std::shared_ptr<Model> open_adapted(const std::string& name) {
  auto model = open_quantized(name);
  model->train();
  load_adapter(*model, quant_folder(base_of(name) + "_adapter"), {.is_trainable = true});
  return model;
}

}  // namespace reprise::testing
