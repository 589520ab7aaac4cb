// One flag of a training command: its names, its help, where its value is kept and what it takes.
// The command line, config files, --help and the saved configuration all work from these.
#pragma once

#include "reprise/training/flags.h"

#include <reprise/io/json.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace reprise::app {

/// The entry of TrainingFlags::keys that names what a data file calls `role`.
struct KeyOfRows {
  std::string role;
};

struct FlagSpec {
  using Member = std::variant<bool TrainingFlags::*,
                              std::optional<bool> TrainingFlags::*,
                              int64_t TrainingFlags::*,
                              uint64_t TrainingFlags::*,
                              double TrainingFlags::*,
                              std::optional<double> TrainingFlags::*,
                              std::string TrainingFlags::*,
                              std::vector<std::string> TrainingFlags::*,
                              std::vector<double> TrainingFlags::*,
                              KeyOfRows>;
  static constexpr size_t kManyWords = 1000;

  std::string name;  ///< as in --name
  Member member;
  std::string unit;  ///< TOKENS, DIR, ...: how --help writes the value
  std::string help;
  std::string group;
  std::vector<std::string> other_names = {};  ///< what users of other programs type
  std::vector<std::string> choices = {};
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool excludes_least = false;
  std::string unset = "none";  ///< how --help writes an empty default
  size_t most_words = 1;
  bool splits_at_commas = false;  ///< each word of a command line may be several, "a,b"
  bool joins_words = false;       ///< a string made of several words: "a,b"
  bool is_required = false;
  bool may_be_empty = false;    ///< a string whose emptiness does not mean that it is unset
  bool is_json_object = false;  ///< a string that holds one

  FlagSpec& aliases(std::vector<std::string> names);
  FlagSpec& one_of(std::vector<std::string> names);
  FlagSpec& at_least(double value);
  FlagSpec& above(double value);
  FlagSpec& between(double smallest, double largest);
  FlagSpec& if_unset(std::string text);
  FlagSpec& many();  ///< words as they stand
  FlagSpec& many_with_commas();
  FlagSpec& joined();
  FlagSpec& required();
  FlagSpec& json_object();
  FlagSpec& or_empty();

  bool is_switch() const;  ///< --x alone means true
  std::vector<std::string> names() const;
};

/// Flags in the order of their declaration; each add() goes into the group begun last.
class FlagList {
 public:
  void begin_group(std::string name) { group_ = std::move(name); }
  FlagSpec& add(std::string name, FlagSpec::Member member, std::string unit, std::string help);
  std::vector<FlagSpec> take() { return std::move(flags_); }

 private:
  std::string group_;
  std::vector<FlagSpec> flags_;
};

// One file each: what there is to set.
void add_model_flags(FlagList& list, Objective objective);
void add_data_flags(FlagList& list, Objective objective);
/// --<role>_key for each: what the rows call it.
void add_key_flags(FlagList& list, const std::vector<std::string>& roles);
void add_loop_flags(FlagList& list, Objective objective);
void add_memory_flags(FlagList& list);
void add_parallel_flags(FlagList& list);
void add_objective_flags(FlagList& list, Objective objective);
void add_saving_flags(FlagList& list, Objective objective);
// Of grpo and ppo.
void add_prompt_flags(FlagList& list);
void add_rollout_flags(FlagList& list);
void add_reward_flags(FlagList& list, Objective objective);
void add_policy_flags(FlagList& list, Objective objective);
void add_critic_flags(FlagList& list);
void add_role_checkpointing_flags(FlagList& list);

inline constexpr std::array kObjectives = {Objective::Sft,
                                           Objective::Rm,
                                           Objective::Prm,
                                           Objective::Dpo,
                                           Objective::Kto,
                                           Objective::Kd,
                                           Objective::Grpo,
                                           Objective::Ppo};
bool is_one_of(Objective objective, std::initializer_list<Objective> objectives);
/// grpo, ppo: the model makes what it is trained on.
bool is_online(Objective objective);

/// All flags of an objective's command.
const std::vector<FlagSpec>& flags_of(Objective objective);
/// By one of its names; null: there is none.
const FlagSpec* find_flag(Objective objective, const std::string& name);

/// A value that a user gave. From a command line, a text, or an array of them if most_words is
/// above
/// 1. From a config file also null (the default) or an object.
struct GivenValue {
  Json value;
  std::string where;  ///< "--max_steps", "run.yaml:3: max_steps"
};
using GivenValues = std::map<std::string, GivenValue>;  ///< by canonical name

/// Converts and checks a value. Throws naming where it came from.
void assign(TrainingFlags& flags, const FlagSpec& flag, const GivenValue& given);
/// Null: unset.
Json value_of(const TrainingFlags& flags, const FlagSpec& flag);

}  // namespace reprise::app
