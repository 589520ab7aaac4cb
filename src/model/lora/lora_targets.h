// Which module paths target_modules and related fields select, by peft's rules.
#pragma once

#include "model/lora/lora_pattern.h"

#include <reprise/model/lora.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise {

class LoraTargetRule {
 public:
  /// Throws if the config is inconsistent or has an expression that cannot be parsed.
  LoraTargetRule(const LoraConfig& config, std::string head_path);

  bool matches(const std::string& path, bool is_projection) const;
  int64_t rank(const std::string& path) const;
  double scale(const std::string& path) const;

 private:
  bool is_excluded(const std::string& path) const;
  bool is_named(const std::string& path) const;
  bool is_in_layers(const std::string& path) const;

  template <class Value>
  using Compiled = std::vector<std::pair<ModulePattern, Value>>;

  const LoraConfig& config_;
  std::string head_path_;
  std::optional<ModulePattern> targets_, excluded_;  // if they are expressions
  std::vector<ModulePattern> layers_;
  Compiled<int64_t> ranks_;
  Compiled<double> alphas_;
};

/// Whether `path` is `name` or ends in ".name".
bool is_path_or_end(const std::string& path, const std::string& name);

}  // namespace reprise
