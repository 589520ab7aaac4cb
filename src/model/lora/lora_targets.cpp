#include "model/lora/lora_targets.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace reprise {

namespace {

void check(const LoraConfig& config) {
  TORCH_CHECK(config.rank >= 1, "[lora] a rank (r) of ", config.rank, ": expected at least 1.");
  TORCH_CHECK(std::isfinite(config.alpha), "[lora] lora_alpha is not a finite number.");
  TORCH_CHECK(config.dropout >= 0 && config.dropout < 1,
              "[lora] a lora_dropout of ",
              config.dropout,
              ": expected at least 0 and less than 1.");
  const bool by_name = std::holds_alternative<std::vector<std::string>>(config.targets);
  TORCH_CHECK(by_name || config.layers.empty(),
              "[lora] layers_to_transform needs target_modules by name: a regular expression can "
              "name the layers itself.");
  TORCH_CHECK(!config.layers.empty() || config.layers_pattern.empty(),
              "[lora] layers_pattern is given without layers_to_transform.");
}

// Works for both variants, Names and Targets, that may hold an expression.
template <class Variant>
std::optional<ModulePattern> compiled(const Variant& names, const char* field) {
  const auto* expression = std::get_if<std::string>(&names);
  return expression == nullptr ? std::nullopt
                               : std::optional<ModulePattern>(std::in_place, *expression, field);
}

template <class Value>
std::vector<std::pair<ModulePattern, Value>> compiled_ends(
    const LoraConfig::Patterns<Value>& patterns, const char* field) {
  std::vector<std::pair<ModulePattern, Value>> result;
  result.reserve(patterns.size());
  for (const auto& [expression, value] : patterns) {
    result.emplace_back(ModulePattern("(?:.*\\.)?(?:" + expression + ")", field), value);
  }
  return result;
}

template <class Value>
Value first_match(const std::vector<std::pair<ModulePattern, Value>>& patterns,
                  const std::string& path,
                  Value otherwise) {
  for (const auto& [pattern, value] : patterns) {
    if (pattern.matches(path)) {
      return value;
    }
  }
  return otherwise;
}

// The layer's index is the first number between dots, after the name of the list of blocks.
std::vector<ModulePattern> layer_patterns(const LoraConfig& config) {
  std::vector<ModulePattern> patterns;
  if (config.layers_pattern.empty()) {
    patterns.emplace_back(".*?\\.[^.]*\\.(?P<layer>\\d+)\\..*", "layers_to_transform");
  }
  for (const auto& name : config.layers_pattern) {
    patterns.emplace_back("(?:.*?\\.)??" + name + "\\.(?P<layer>\\d+)\\..*", "layers_pattern");
  }
  return patterns;
}

bool names_one_of(const std::string& path, const std::vector<std::string>& names) {
  return std::any_of(
      names.begin(), names.end(), [&](const auto& name) { return is_path_or_end(path, name); });
}

// "self_attn" in modules_to_save excludes everything below it from being adapted.
bool is_under(const std::string& path, const std::string& name) {
  return is_path_or_end(path, name) || path.starts_with(name + ".") ||
         path.find("." + name + ".") != std::string::npos;
}

}  // namespace

bool is_path_or_end(const std::string& path, const std::string& name) {
  return path == name || path.ends_with("." + name);
}

LoraTargetRule::LoraTargetRule(const LoraConfig& config, std::string head_path)
    : config_(config), head_path_(std::move(head_path)) {
  check(config);
  targets_ = compiled(config.targets, "target_modules");
  if (config.excluded) {
    excluded_ = compiled(*config.excluded, "exclude_modules");
  }
  layers_ = layer_patterns(config);
  ranks_ = compiled_ends(config.rank_pattern, "rank_pattern");
  alphas_ = compiled_ends(config.alpha_pattern, "alpha_pattern");
}

bool LoraTargetRule::matches(const std::string& path, bool is_projection) const {
  if (is_excluded(path)) {
    return false;
  }
  if (std::holds_alternative<LoraConfig::AllLinear>(config_.targets)) {
    return is_projection && path != head_path_;
  }
  return targets_ ? targets_->matches(path) : is_named(path);
}

bool LoraTargetRule::is_excluded(const std::string& path) const {
  if (excluded_ && excluded_->matches(path)) {
    return true;
  }
  if (config_.excluded && !excluded_ &&
      names_one_of(path, std::get<std::vector<std::string>>(*config_.excluded))) {
    return true;
  }
  return std::any_of(config_.modules_to_save.begin(),
                     config_.modules_to_save.end(),
                     [&](const auto& name) { return is_under(path, name); });
}

bool LoraTargetRule::is_named(const std::string& path) const {
  const auto& names = std::get<std::vector<std::string>>(config_.targets);
  const bool is_whole_path = std::find(names.begin(), names.end(), path) != names.end();
  return is_whole_path || (names_one_of(path, names) && is_in_layers(path));
}

bool LoraTargetRule::is_in_layers(const std::string& path) const {
  if (config_.layers.empty()) {
    return true;
  }
  for (const auto& pattern : layers_) {
    if (const auto number = pattern.group(path, "layer")) {
      return std::any_of(config_.layers.begin(), config_.layers.end(), [&](int64_t layer) {
        return std::to_string(layer) == *number;
      });
    }
  }
  return false;
}

int64_t LoraTargetRule::rank(const std::string& path) const {
  return first_match(ranks_, path, config_.rank);
}

double LoraTargetRule::scale(const std::string& path) const {
  return config_.scale_of(rank(path), first_match(alphas_, path, config_.alpha));
}

}  // namespace reprise
