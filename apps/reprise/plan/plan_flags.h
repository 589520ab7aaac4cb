// The command line of `reprise plan`: flags of training, a training.yaml, and a few flags of its
// own.
#pragma once

#include "reprise/training/flags/flags.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace reprise::app {

struct PlanFlags {
  TrainingFlags training;  ///< the run to plan, with its objective
  int64_t row_length = 0;  ///< tokens; for grpo and ppo of a prompt with its completion
  std::optional<int64_t> world;
  std::filesystem::path config;  ///< empty: none
  std::filesystem::path html;
  bool json = false;
  /// Where a value came from, by flag: "--budget", "run.yaml:3: max_length". Defaults are missing.
  std::map<std::string, std::string> sources;
  std::set<std::string> typed;  ///< flags on the command line
  /// Settings of the config file that change what the run stores, but that plans do not cover.
  std::vector<std::string> not_planned;

  bool has(const std::string& flag) const { return sources.contains(flag); }
};

/// Declares all flags of `reprise plan`. Call finish_plan_flags() when the command line has been
/// parsed.
std::shared_ptr<PlanFlags> add_plan_flags(CLI::App& command);

/// Fills in the values. A config file is one of a training command; keys that do not concern a plan
/// are ignored. Its objective is --objective, or else the one that has all keys of the file. Throws
/// for unknown flags and keys, as training does, and for flags without effect.
void finish_plan_flags(const CLI::App& command, PlanFlags& flags);

}  // namespace reprise::app
