// How flags are declared, and the list of each objective.
#include "reprise/training/flag_spec.h"

#include <algorithm>
#include <map>

namespace reprise::app {

FlagSpec& FlagSpec::aliases(std::vector<std::string> names) {
  other_names = std::move(names);
  return *this;
}

FlagSpec& FlagSpec::one_of(std::vector<std::string> names) {
  choices = std::move(names);
  return *this;
}

FlagSpec& FlagSpec::at_least(double value) {
  least = value;
  return *this;
}

FlagSpec& FlagSpec::above(double value) {
  least = value;
  excludes_least = true;
  return *this;
}

FlagSpec& FlagSpec::between(double smallest, double largest) {
  least = smallest;
  most = largest;
  return *this;
}

FlagSpec& FlagSpec::if_unset(std::string text) {
  unset = std::move(text);
  return *this;
}

FlagSpec& FlagSpec::many() {
  most_words = kManyWords;
  return *this;
}

FlagSpec& FlagSpec::many_with_commas() {
  splits_at_commas = true;
  return many();
}

FlagSpec& FlagSpec::joined() {
  joins_words = true;
  return many();
}

FlagSpec& FlagSpec::required() {
  is_required = true;
  return *this;
}

FlagSpec& FlagSpec::json_object() {
  is_json_object = true;
  return *this;
}

FlagSpec& FlagSpec::or_empty() {
  may_be_empty = true;
  return *this;
}

bool FlagSpec::is_switch() const {
  return std::holds_alternative<bool TrainingFlags::*>(member) ||
         std::holds_alternative<std::optional<bool> TrainingFlags::*>(member);
}

std::vector<std::string> FlagSpec::names() const {
  std::vector<std::string> all{name};
  all.insert(all.end(), other_names.begin(), other_names.end());
  return all;
}

FlagSpec& FlagList::add(std::string name,
                        FlagSpec::Member member,
                        std::string unit,
                        std::string help) {
  flags_.push_back({.name = std::move(name),
                    .member = std::move(member),
                    .unit = std::move(unit),
                    .help = std::move(help),
                    .group = group_});
  return flags_.back();
}

bool is_one_of(Objective objective, std::initializer_list<Objective> objectives) {
  return std::find(objectives.begin(), objectives.end(), objective) != objectives.end();
}

bool is_online(Objective objective) {
  return is_one_of(objective, {Objective::Grpo, Objective::Ppo});
}

const std::vector<FlagSpec>& flags_of(Objective objective) {
  static const auto all = [] {
    std::map<Objective, std::vector<FlagSpec>> made;
    for (const Objective each : kObjectives) {
      FlagList list;
      add_model_flags(list, each);
      add_data_flags(list, each);
      add_loop_flags(list, each);
      add_objective_flags(list, each);
      add_saving_flags(list, each);
      made[each] = list.take();
    }
    return made;
  }();
  return all.at(objective);
}

const FlagSpec* find_flag(Objective objective, const std::string& name) {
  for (const FlagSpec& flag : flags_of(objective)) {
    const auto names = flag.names();
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      return &flag;
    }
  }
  return nullptr;
}

namespace {

// OpenRLHF's, but for lambda, which is TRL's. Dropout would make a ratio of 1 something else.
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

Json resolved_configuration(const TrainingFlags& flags) {
  Json configuration = Json::object();
  for (const FlagSpec& flag : flags_of(flags.objective)) {
    configuration[flag.name] = value_of(flags, flag);
  }
  return configuration;
}

}  // namespace reprise::app
