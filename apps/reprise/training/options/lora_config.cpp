#include "reprise/training/options/lora_config.h"

#include <c10/util/Exception.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <system_error>
#include <type_traits>
#include <vector>

namespace reprise::app {

namespace {

// The limits of adapter_config.json.
constexpr int64_t kLargestCount = int64_t{1} << 20;
constexpr double kLargestAlpha = 1e9;

template <class Number>
std::optional<Number> number_in(const std::string& text, Number least, Number most) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const bool is_number = !text.empty() && error == std::errc() && stop == end;
  return is_number && least <= number && number <= most ? std::optional(number) : std::nullopt;
}

// A pattern may have an equals sign itself, so the last one counts.
template <class Number>
LoraConfig::Patterns<Number> patterns(const std::vector<std::string>& values,
                                      const char* flag,
                                      Number least,
                                      Number most) {
  LoraConfig::Patterns<Number> result;
  for (const auto& value : values) {
    const size_t equals = value.rfind('=');
    const bool has_pattern = equals != std::string::npos && equals > 0;
    const auto number =
        has_pattern ? number_in(value.substr(equals + 1), least, most) : std::nullopt;
    TORCH_CHECK(number,
                "--",
                flag,
                ": expected PATTERN=",
                std::is_integral_v<Number> ? "RANK, a whole number of at least 1" : "NUMBER",
                ", such as q_proj=4, found \"",
                value,
                "\"");
    result.emplace_back(value.substr(0, equals), *number);
  }
  return result;
}

}  // namespace

LoraConfig::Patterns<int64_t> rank_pattern(const std::vector<std::string>& values) {
  return patterns<int64_t>(values, "lora_rank_pattern", 1, kLargestCount);
}

LoraConfig::Patterns<double> alpha_pattern(const std::vector<std::string>& values) {
  return patterns<double>(values, "lora_alpha_pattern", -kLargestAlpha, kLargestAlpha);
}

std::vector<int64_t> layers_to_transform(const std::vector<std::string>& values) {
  std::vector<int64_t> layers;
  for (const auto& value : values) {
    const auto layer = number_in<int64_t>(value, 0, kLargestCount);
    TORCH_CHECK(
        layer, "--layers_to_transform: expected numbers of blocks, from 0, found \"", value, "\"");
    layers.push_back(*layer);
  }
  return layers;
}

LoraConfig lora_config(const TrainingFlags& flags, const std::string& base_model) {
  LoraConfig config;
  config.rank = flags.lora_r;
  config.alpha = flags.lora_alpha;
  config.dropout = flags.lora_dropout;
  config.use_rslora = flags.use_rslora;
  config.use_dora = flags.use_dora;
  config.init = LoraInit::parse(flags.init_lora_weights);
  if (flags.lora_target_modules != std::vector<std::string>{"all-linear"}) {
    config.targets = flags.lora_target_modules;
  }
  if (!flags.exclude_modules.empty()) {
    config.excluded = flags.exclude_modules;
  }
  config.layers = layers_to_transform(flags.layers_to_transform);
  config.rank_pattern = rank_pattern(flags.lora_rank_pattern);
  config.alpha_pattern = alpha_pattern(flags.lora_alpha_pattern);
  config.modules_to_save = flags.lora_modules_to_save;
  config.base_model = base_model;
  return config;
}

std::string adapter_kind(const LoraConfig& config) {
  switch (config.init.kind) {
    case LoraInit::Kind::Pissa:
      return "PiSSA";
    case LoraInit::Kind::Olora:
      return "OLoRA";
    default:
      return config.use_dora ? "DoRA" : "LoRA";
  }
}

}  // namespace reprise::app
