// Reads CLI11's options. The training commands declare theirs with the default in the description;
// those of other commands have it from CLI11.
#include "reprise/help/help_entry.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <sstream>

namespace reprise::app {

namespace {

/// CLI11's names of types as placeholders: "INT:INT in [2 - 1024]" is N.
std::string unit_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) {
    return "";
  }
  std::string unit = option.get_option_text();
  if (unit.empty()) {
    const std::string type = option.get_type_name();
    unit = type.substr(0, type.find(':'));
    unit = unit == "INT" || unit == "UINT" ? "N" : unit == "FLOAT" ? "X" : unit;
    unit += option.get_items_expected_max() > 1 ? "..." : "";
  }
  return unit;
}

std::vector<std::string> choices_of(const std::string& type) {
  const size_t open = type.find('{'), close = type.find('}');
  std::vector<std::string> choices;
  if (open != std::string::npos && close != std::string::npos) {
    std::istringstream list(type.substr(open + 1, close - open - 1));
    for (std::string choice; std::getline(list, choice, ',');) {
      choices.push_back(choice);
    }
  }
  return choices;
}

std::string range_of(const std::string& type) {
  const size_t open = type.find(" in ["), close = type.find(']');
  if (open == std::string::npos || close == std::string::npos) {
    return type.find("POSITIVE") == std::string::npos ? "" : "above 0";
  }
  std::string range = type.substr(open + 5, close - open - 5);
  return range.replace(range.find(" - "), 3, " to ");
}

HelpEntry entry_of(const CLI::Option& option) {
  HelpEntry entry;
  const auto& names = option.get_lnames();
  entry.name = names.empty() ? option.get_single_name() : "--" + names.front();
  entry.unit = unit_of(option);
  entry.group = option.get_group();
  entry.text = option.get_description();
  const size_t bracket = std::min(entry.text.rfind(" [default: "), entry.text.rfind(" [required]"));
  if (bracket != std::string::npos) {
    const size_t alias = entry.text.rfind(" (or --", bracket);
    const size_t cut = std::min(alias, bracket);
    entry.ending = entry.text.substr(cut + 1);
    entry.text.resize(cut);
    return entry;
  }
  const std::string type = option.get_type_name();
  entry.choices = choices_of(type);
  entry.range = range_of(type);
  std::string ending = names.size() > 1 ? "(or --" + names[1] + ")" : "";
  const std::string value = option.get_required() ? "[required]"
                            : option.get_default_str().empty()
                                ? ""
                                : "[default: " + option.get_default_str() + "]";
  entry.ending = ending + (ending.empty() || value.empty() ? "" : " ") + value;
  return entry;
}

}  // namespace

std::string HelpEntry::full() const {
  const bool has_colon = text.find_first_of(":;") != std::string::npos;
  const std::string list =
      choices.empty() ? "" : (has_colon ? "; one of " : ": ") + c10::Join(", ", choices);
  return text + list + (ending.empty() ? "" : " " + ending);
}

std::string HelpEntry::brief() const {
  constexpr size_t kTwoLines = 84;
  std::string result = text.substr(0, std::min({text.find("; "), text.find(". "), text.size()}));
  if (result.size() > kTwoLines) {
    result = result.substr(0, result.find(": "));
  }
  const std::string mark = "[default: ";
  const size_t at = ending.find(mark);
  if (ending.find("[required]") != std::string::npos) {
    result += " [required]";
  } else if (at != std::string::npos) {
    const std::string value = ending.substr(at + mark.size());
    const bool says_something = value != "false]" && value != "none]" && value != "]";
    result += says_something ? " [" + value : "";
  }
  return result;
}

std::vector<HelpEntry> help_entries(const CLI::App& command) {
  std::vector<HelpEntry> entries;
  for (const CLI::Option* const option : command.get_options()) {
    const bool is_help = option == command.get_help_ptr() || option->check_name("--version");
    if (!option->get_group().empty() && !is_help) {
      entries.push_back(entry_of(*option));
    }
  }
  return entries;
}

}  // namespace reprise::app
