#include "model/quantization/quantize_model.h"

#include <reprise/model/lora.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace reprise {

namespace {

// As transformers matches names, apart from regular expressions.
bool names_module(const std::string& name, const std::string& path) {
  return path.ends_with(name) || path.starts_with(name + ".");
}

}  // namespace

std::vector<std::pair<std::string, std::shared_ptr<Linear>>> linears_of(const Model& model) {
  std::vector<std::pair<std::string, std::shared_ptr<Linear>>> linears;
  for (const auto& item : model.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    if (auto linear = std::dynamic_pointer_cast<Linear>(item.value())) {
      linears.emplace_back(item.key(), std::move(linear));
    }
  }
  return linears;
}

bool converts(const Model& model, const QuantizationConfig& config, const std::string& path) {
  const auto& skips = config.skip_modules;
  return path != model.head_path() &&
         std::none_of(skips.begin(), skips.end(), [&](const std::string& name) {
           return names_module(name, path);
         });
}

void check_skips(const Model& model, const QuantizationConfig& config) {
  const auto linears = linears_of(model);
  for (const auto& name : config.skip_modules) {
    const bool matches = name == model.head_path() ||
                         std::any_of(linears.begin(), linears.end(), [&](const auto& linear) {
                           return names_module(name, linear.first);
                         });
    TORCH_CHECK(matches && !name.empty(),
                "[quant] skip_modules: \"",
                name,
                "\" matches no linear layer; paths are like ",
                linears.front().first);
  }
}

void quantize_model(Model& model, const QuantizationConfig& config) {
  TORCH_CHECK(!is_quantized(model), "[quant] the model is quantised already.");
  TORCH_CHECK(!has_lora(model) && model.sharded_parameters() == nullptr,
              "[quant] expected a model that is whole and without adapters: quantise it first.");
  check_skips(model, config);
  for (const auto& [path, linear] : linears_of(model)) {
    if (converts(model, config, path)) {
      linear->quantize(config.scheme, config.compute_type);
    }
  }
  model.set_quantization(config);
}

void dequantize_model(Model& model, at::ScalarType type) {
  const bool is_frozen = has_lora(model);
  for (const auto& [path, linear] : linears_of(model)) {
    if (linear->quantized() != nullptr) {
      linear->dequantize(type);
      linear->weight.requires_grad_(!is_frozen);
    }
  }
  model.set_quantization(std::nullopt);
}

bool is_quantized(const Model& model) {
  return !quantized_layers(model).empty();
}

std::vector<std::string> quantized_layers(const Model& model) {
  std::vector<std::string> paths;
  for (const auto& [path, linear] : linears_of(model)) {
    if (linear->quantized() != nullptr) {
      paths.push_back(path);
    }
  }
  return paths;
}

int64_t quantized_bytes(const Model& model) {
  int64_t bytes = 0;
  for (const auto& [path, linear] : linears_of(model)) {
    bytes += linear->quantized() == nullptr ? 0 : linear->quantized()->bytes();
  }
  return bytes;
}

int64_t quantized_count(const Model& model) {
  int64_t count = 0;
  for (const auto& [path, linear] : linears_of(model)) {
    count += linear->quantized() == nullptr ? 0 : linear->shape().in * linear->shape().out;
  }
  return count;
}

}  // namespace reprise
