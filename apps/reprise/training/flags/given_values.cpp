#include "reprise/training/flags/given_values.h"

#include "reprise/training/effects/flag_effects.h"
#include "reprise/training/flags/suggest.h"
#include "reprise/training/flags/unknown_flag.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <utility>

namespace reprise::app {

namespace {

std::string refusal_of_key(const ConfigEntry& entry, const FlagTable& table) {
  const std::string value = entry.value.is_string() ? entry.value.get<std::string>() : "";
  const std::string known = about_unknown_flag(table, entry.key, value);
  if (!known.empty()) {
    return entry.where + known;
  }
  const std::string suggestion = suggest_flag(table.names(), entry.key);
  return entry.where + ": " + table.command + " has no such flag" +
         (suggestion.empty() ? "" : "; " + suggestion);
}

}  // namespace

GivenValues values_in_config(std::vector<ConfigEntry> entries,
                             const FlagTable& table,
                             const FlagTable* ignored) {
  GivenValues given;
  std::vector<std::string> refusals;
  for (ConfigEntry& entry : entries) {
    const FlagSpec* flag = table.find(entry.key);
    if (flag == nullptr && ignored != nullptr && ignored->find(entry.key) != nullptr) {
      continue;
    }
    if (flag == nullptr) {
      refusals.push_back(refusal_of_key(entry, ignored == nullptr ? table : *ignored));
      continue;
    }
    TORCH_CHECK(!given.contains(flag->name), entry.where, ": --", flag->name, " is given twice");
    given[flag->name] = {std::move(entry.value), std::move(entry.where)};
  }
  TORCH_CHECK(refusals.empty(), c10::Join("\n  ", refusals));
  return given;
}

void assign_all(TrainingFlags& flags,
                const FlagTable& table,
                const GivenValues& from_file,
                const GivenValues& from_command_line) {
  for (const FlagSpec& flag : table.flags) {
    for (const GivenValues* values : {&from_file, &from_command_line}) {
      const auto found = values->find(flag.name);
      if (found != values->end()) {
        assign(flags, flag, found->second);
      }
    }
    // A saved configuration contains every flag, so a default in it does not count as given. Nor
    // does a flag that sets a value of the file back to the default.
    const bool is_default = value_of(flags, flag) == value_of(table.defaults, flag);
    if (!is_default || (from_command_line.contains(flag.name) && !from_file.contains(flag.name))) {
      flags.given.insert(flag.name);
    }
  }
}

void enable_lora_if_set(TrainingFlags& flags, bool has_choice) {
  for (const std::string& name : lora_settings()) {
    if (flags.given.contains(name)) {
      TORCH_CHECK(flags.use_peft || !has_choice,
                  "--",
                  name,
                  " has no effect with --use_peft false, which trains all weights");
      flags.use_peft = true;
    }
  }
}

}  // namespace reprise::app
