// One flag of a training command: its names, its help, its member of TrainingFlags and the values
// it accepts. The command line, config files, --help and the saved configuration all use these.
#pragma once

#include "reprise/training/flags/flags.h"

#include <reprise/io/json.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace reprise::app {

/// Stands for the entry `role` of TrainingFlags::keys: the name of a column in the data.
struct KeyOfRows {
  std::string role;
};

/// Above any batch that is trained: products of three such counts fit 64 bits.
inline constexpr double kMostOfABatch = 1'000'000;

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
  std::vector<std::string> other_names = {};  ///< hidden aliases: names in other programs
  std::string short_name = {};                ///< an alias that --help shows
  std::vector<std::string> choices = {};
  /// What to use instead of a value that another program has, and is none of the choices.
  std::string (*instead_of)(std::string_view) = nullptr;
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool excludes_least = false;
  std::string unset = "none";  ///< what --help shows as the default if there is no value
  size_t most_words = 1;
  bool splits_at_commas = false;  ///< "a,b" on a command line is two values
  bool joins_words = false;       ///< several words are joined to one string, "a,b"
  bool is_required = false;
  bool may_be_empty = false;    ///< the empty string is a value, not "unset"
  bool is_json_object = false;  ///< the string is a JSON object
  bool is_url = false;          ///< saved without its password and query

  FlagSpec& aliases(std::vector<std::string> names);
  FlagSpec& shorthand(std::string alias);
  FlagSpec& one_of(std::vector<std::string> names);
  FlagSpec& at_least(double value);
  FlagSpec& above(double value);
  FlagSpec& at_most(double value);
  FlagSpec& between(double smallest, double largest);
  FlagSpec& if_unset(std::string text);
  FlagSpec& many();  ///< any number of words, not split at commas
  FlagSpec& many_with_commas();
  FlagSpec& joined();
  FlagSpec& required();
  FlagSpec& json_object();
  FlagSpec& or_empty();
  FlagSpec& url();

  bool is_switch() const;  ///< --x without a value means true
  std::vector<std::string> names() const;
  bool is_called(const std::string& any_name) const;  ///< its name or an alias
};

/// Collects flags in the order of their declaration. add() puts a flag into the current group.
class FlagList {
 public:
  void begin_group(std::string name) { group_ = std::move(name); }
  FlagSpec& add(std::string name, FlagSpec::Member member, std::string unit, std::string help);
  std::vector<FlagSpec> take() { return std::move(flags_); }

 private:
  std::string group_;
  std::vector<FlagSpec> flags_;
};

// The groups of flags, one file each.
void add_model_flags(FlagList& list, Objective objective);
void add_quantization_flags(FlagList& list);
void add_data_flags(FlagList& list, Objective objective);
/// Adds --<role>_key for each role: the name of its column in the data.
void add_key_flags(FlagList& list, const std::vector<std::string>& roles);
void add_loop_flags(FlagList& list, Objective objective);
void add_memory_flags(FlagList& list);
void add_parallel_flags(FlagList& list);
void add_objective_flags(FlagList& list, Objective objective);
void add_saving_flags(FlagList& list, Objective objective);
// Groups of grpo and ppo.
void add_prompt_flags(FlagList& list);
void add_rollout_flags(FlagList& list);
void add_reward_flags(FlagList& list, Objective objective);
void add_policy_flags(FlagList& list, Objective objective);
void add_critic_flags(FlagList& list);
void add_role_checkpointing_flags(FlagList& list);

bool is_one_of(Objective objective, std::initializer_list<Objective> objectives);
/// grpo and ppo, which train on completions that the model generates.
bool is_online(Objective objective);

/// A value that a user gave. From a command line it is a string, or an array of strings if
/// most_words is above 1. From a config file it can also be null (the default) or an object.
struct GivenValue {
  Json value;
  std::string where;  ///< "--max_steps", "run.yaml:3: max_steps"
};
using GivenValues = std::map<std::string, GivenValue>;  ///< by canonical name

/// What the flag expects, for --help: "a whole number of at least 1".
std::string expected_value(const FlagSpec& flag);
/// Converts and checks a value. An error names where the value came from.
void assign(TrainingFlags& flags, const FlagSpec& flag, const GivenValue& given);
/// The value as training.yaml has it, but with passwords; null: unset.
Json value_of(const TrainingFlags& flags, const FlagSpec& flag);

}  // namespace reprise::app
