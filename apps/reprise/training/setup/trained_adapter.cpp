#include "reprise/training/setup/trained_adapter.h"

#include "reprise/adapter_folder.h"
#include "reprise/training/options/lora_config.h"

#include <reprise/model/quantization.h>

#include <c10/util/Exception.h>

#include <regex>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::app {

namespace {

bool is_in_a_block(const std::string& name) {
  static const std::regex block(R"(\.\d+\.)");
  return std::regex_search(name, block);
}

// check_adapter_settings() cannot tell which layers "all-linear" means.
void check_adapts_all_linear(const Model& model, const TrainingFlags& flags) {
  if (!flags.given.contains("lora_target_modules") ||
      flags.lora_target_modules != std::vector<std::string>{"all-linear"}) {
    return;
  }
  constexpr std::string_view kWeight = ".weight";
  constexpr int64_t kMatrix = 2;
  const auto parameters = model.named_parameters();
  auto paths = quantized_layers(model);
  for (const auto& item : parameters) {
    if (item.key().ends_with(kWeight) && item.value().dim() == kMatrix &&
        is_in_a_block(item.key())) {
      paths.push_back(item.key().substr(0, item.key().size() - kWeight.size()));
    }
  }
  for (const auto& path : paths) {
    TORCH_CHECK(parameters.contains(path + ".lora.A"),
                "--lora_target_modules all-linear: the adapter ",
                flags.adapter,
                " is trained further, and ",
                path,
                " has none. Leave the flag out, or make a model of the adapter first, ",
                merge_command(flags.adapter),
                ", and train a new one on --model MERGED");
  }
}

}  // namespace

std::optional<LoraConfig> add_adapters(Model& model,
                                       const TrainingFlags& flags,
                                       bool keeps_reference) {
  if (!flags.adapter.empty()) {
    AdapterOptions options;
    options.is_trainable = true;
    options.keep_reference = keeps_reference;
    auto lora = load_adapter(model, flags.adapter, options);
    check_adapts_all_linear(model, flags);
    return lora;
  }
  if (!flags.use_peft) {
    return std::nullopt;
  }
  auto lora = lora_config(flags, flags.model);
  add_lora(model, lora, flags.seed);
  return lora;
}

}  // namespace reprise::app
