#include "reprise/help/one_flag.h"

#include "reprise/help/help_entry.h"
#include "reprise/help/help_page.h"
#include "reprise/help/help_text.h"
#include "reprise/plan/plan_table.h"
#include "reprise/training/flags/flag_table.h"
#include "reprise/training/flags/suggest.h"
#include "reprise/training/flags/unknown_flag.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <vector>

namespace reprise::app {

namespace {

/// The table of a training command and of plan; null: the command has none.
const FlagTable* table_named(const std::string& command) {
  for (const Objective objective : kObjectives) {
    if (to_string(objective) == command) {
      return &table_of(objective);
    }
  }
  return command == "plan" ? &plan_table() : nullptr;
}

std::string row(const std::string& what, const std::string& text) {
  constexpr size_t kColumn = 16;
  return text.empty() ? ""
                      : "  " + what + std::string(kColumn - 2 - what.size(), ' ') +
                            wrapped(text, kColumn, kColumn) + "\n";
}

std::string commands_with(const std::string& name) {
  std::vector<std::string> commands;
  for (const Objective objective : kObjectives) {
    if (find_flag(objective, name) != nullptr) {
      commands.push_back(to_string(objective));
    }
  }
  return c10::Join(", ", commands);
}

std::string dashed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "--" : ", --") + name;
  }
  return text;
}

std::string default_in(const std::string& ending) {
  const std::string mark = "[default: ";
  const size_t at = ending.find(mark);
  const bool is_required = ending.find("[required]") != std::string::npos;
  return is_required ? "none: it is required"
         : at == std::string::npos
             ? ""
             : ending.substr(at + mark.size(), ending.rfind(']') - at - mark.size());
}

[[noreturn]] void refuse_topic(const CLI::App& command,
                               const FlagTable* table,
                               const std::string& name) {
  const std::string known = table == nullptr ? "" : about_unknown_flag(*table, name, "");
  TORCH_CHECK(known.empty(), "--", name, known);
  const std::string suggestion = suggest_flag(command, name);
  TORCH_CHECK(false,
              command.get_name(),
              " --",
              name,
              ": there is no such flag",
              suggestion.empty() ? "" : "; " + suggestion);
}

}  // namespace

std::string one_flag(const CLI::App& command, const std::string& name) {
  const FlagTable* const table = table_named(command.get_name());
  const FlagSpec* const flag = table == nullptr ? nullptr : table->find(name);
  const HelpPage page = help_page(command.get_name());
  for (const HelpEntry& entry : help_entries(command)) {
    if (entry.name != "--" + (flag == nullptr ? name : flag->name) && entry.name != name) {
      continue;
    }
    std::string text = entry.heading() + "\n  " + wrapped(entry.text, 2, 2) + "\n\n";
    text += row("value",
                flag != nullptr      ? expected_value(*flag)
                : entry.unit.empty() ? "none: it switches something on"
                                     : entry.range);
    text += row("choices", c10::Join(", ", flag == nullptr ? entry.choices : flag->choices));
    text += row("default", default_in(entry.ending));
    text += row("also accepted", flag == nullptr ? "" : dashed(flag->other_names));
    text += row("commands", flag == nullptr ? command.get_name() : commands_with(flag->name));
    return text + row("documented in", document_of_group(entry.group, page));
  }
  refuse_topic(command, table, name);
}

}  // namespace reprise::app
