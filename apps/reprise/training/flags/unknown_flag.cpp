#include "reprise/training/flags/unknown_flag.h"

#include "reprise/training/flags/foreign_flags.h"
#include "reprise/training/flags/parallel_flags.h"

#include <c10/util/StringUtil.h>

#include <vector>

namespace reprise::app {

namespace {

std::vector<std::string> commands_with(const std::string& name) {
  std::vector<std::string> commands;
  for (const Objective objective : kObjectives) {
    if (find_flag(objective, name) != nullptr) {
      commands.push_back(to_string(objective));
    }
  }
  return commands;
}

}  // namespace

std::string about_unknown_flag(const FlagTable& table,
                               const std::string& name,
                               const std::string& value) {
  const Objective objective = table.defaults.objective;
  const ForeignFlag* foreign = find_foreign_flag(name, value, objective);
  const auto others = commands_with(name);
  if (!others.empty()) {
    // Unless this objective's own table says why not.
    const bool is_refused = foreign != nullptr && foreign->here == "refused" &&
                            foreign->is_online == is_online(objective);
    return is_refused ? answer_of(*foreign, value)
                      : " means nothing for " + table.command + ": it is a flag of " +
                            c10::Join(", ", others);
  }
  const std::string parallelism = about_parallelism(name);
  return !parallelism.empty() ? parallelism : foreign != nullptr ? answer_of(*foreign, value) : "";
}

}  // namespace reprise::app
