// The flags of each training command and their defaults.
#include "reprise/training/flags/flag_table.h"

#include <reprise/reward/url.h>

#include <algorithm>
#include <map>
#include <utility>

namespace reprise::app {

namespace {

FlagTable make_table(Objective objective) {
  FlagList list;
  add_model_flags(list, objective);
  add_data_flags(list, objective);
  add_loop_flags(list, objective);
  add_objective_flags(list, objective);
  add_saving_flags(list, objective);
  return {
      .command = to_string(objective), .flags = list.take(), .defaults = default_flags(objective)};
}

// OpenRLHF's defaults, except for lambda, which is TRL's. With dropout, ratios would not be 1 even
// for an unchanged policy.
void set_ppo_defaults(TrainingFlags& flags) {
  flags.learning_rate = 1e-6;
  flags.num_train_epochs = 1;
  flags.disable_dropout = true;
  flags.advantage_estimator = "gae";
  flags.loss_type = {"ppo"};
  flags.num_generations = 1;
  flags.beta = 0;
  flags.kl_coef = 0.01;
  flags.use_bias_correction_kl = false;
  flags.reward_clip_range = {-10, 10};
}

}  // namespace

TrainingFlags default_flags(Objective objective) {
  TrainingFlags flags;
  flags.objective = objective;
  switch (objective) {
    case Objective::Sft:
      flags.loss_type = {"nll"};
      break;
    case Objective::Rm:
      flags.learning_rate = 1e-4;
      flags.disable_dropout = true;
      flags.loss_type = {"sigmoid"};
      break;
    case Objective::Prm:
      flags.learning_rate = 1e-5;
      break;
    case Objective::Dpo:
      flags.learning_rate = 1e-6;
      flags.disable_dropout = true;
      flags.loss_type = {"sigmoid"};
      break;
    case Objective::Kto:
      flags.learning_rate = 1e-6;
      flags.disable_dropout = true;
      flags.loss_type = {"kto"};
      flags.shuffle = false;  // neighbours are mismatched, and files are made with that in mind
      break;
    case Objective::Kd:
      flags.learning_rate = 5e-6;
      break;
    case Objective::Grpo:
      flags.learning_rate = 1e-6;
      flags.beta = 0;
      flags.loss_type = {"dapo"};
      break;
    case Objective::Ppo:
      set_ppo_defaults(flags);
      break;
  }
  return flags;
}

std::vector<std::string> FlagTable::names() const {
  std::vector<std::string> all;
  for (const FlagSpec& flag : flags) {
    const auto own = flag.names();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

const FlagSpec* FlagTable::find(const std::string& name) const {
  const auto found = std::find_if(
      flags.begin(), flags.end(), [&](const FlagSpec& flag) { return flag.is_called(name); });
  return found == flags.end() ? nullptr : &*found;
}

const FlagTable& table_of(Objective objective) {
  static const auto all = [] {
    std::map<Objective, FlagTable> tables;
    for (const Objective each : kObjectives) {
      tables.emplace(each, make_table(each));
    }
    return tables;
  }();
  return all.at(objective);
}

const std::vector<FlagSpec>& flags_of(Objective objective) {
  return table_of(objective).flags;
}

const FlagSpec* find_flag(Objective objective, const std::string& name) {
  return table_of(objective).find(name);
}

Json resolved_configuration(const TrainingFlags& flags) {
  Json configuration = Json::object();
  for (const FlagSpec& flag : flags_of(flags.objective)) {
    Json value = value_of(flags, flag);
    if (flag.is_url && value.is_string()) {
      value = redacted_url(value.get<std::string>());
    }
    configuration[flag.name] = std::move(value);
  }
  return configuration;
}

}  // namespace reprise::app
