#include "reprise/training/options/lora_config.h"

#include <vector>

namespace reprise::app {

LoraConfig lora_config(const TrainingFlags& flags, const std::string& base_model) {
  LoraConfig config;
  config.rank = flags.lora_r;
  config.alpha = flags.lora_alpha;
  config.dropout = flags.lora_dropout;
  config.use_rslora = flags.use_rslora;
  if (flags.lora_target_modules != std::vector<std::string>{"all-linear"}) {
    config.targets = flags.lora_target_modules;
  }
  config.modules_to_save = flags.lora_modules_to_save;
  config.base_model = base_model;
  return config;
}

}  // namespace reprise::app
