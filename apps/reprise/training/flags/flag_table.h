// All flags of a command.
#pragma once

#include "reprise/training/flags/flag_spec.h"

#include <array>
#include <string>
#include <vector>

namespace reprise::app {

inline constexpr std::array kObjectives = {Objective::Sft,
                                           Objective::Rm,
                                           Objective::Prm,
                                           Objective::Dpo,
                                           Objective::Kto,
                                           Objective::Kd,
                                           Objective::Grpo,
                                           Objective::Ppo};

struct FlagTable {
  std::string command;  ///< its name, for messages
  std::vector<FlagSpec> flags;
  TrainingFlags defaults;

  /// By its name or an alias; null: there is no such flag.
  const FlagSpec* find(const std::string& name) const;
  std::vector<std::string> names() const;  ///< with all aliases
};

/// The flags of a training command.
const FlagTable& table_of(Objective objective);
const std::vector<FlagSpec>& flags_of(Objective objective);
const FlagSpec* find_flag(Objective objective, const std::string& name);

}  // namespace reprise::app
