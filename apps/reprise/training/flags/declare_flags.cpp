// Declares flags to CLI11, with the descriptions that --help shows.
#include "reprise/training/flags/command_line.h"

#include <c10/util/StringUtil.h>

#include <utility>

namespace reprise::app {

namespace {

std::string default_text(const FlagSpec& flag, const TrainingFlags& defaults) {
  const Json value = value_of(defaults, flag);
  if (value.is_null() || value.empty()) {
    return flag.unset;
  }
  std::vector<std::string> texts;
  for (const Json& item : value.is_array() ? value : Json::array({value})) {
    const bool is_plain = item.is_string() && item != "\n";
    std::string text = is_plain ? item.get<std::string>() : item.dump();
    if (item.is_number_float() && text.ends_with(".0")) {
      text.resize(text.size() - 2);
    }
    texts.push_back(std::move(text));
  }
  return c10::Join(" ", texts);
}

std::string help_text(const FlagSpec& flag, const TrainingFlags& defaults) {
  const bool has_colon = flag.help.find_first_of(":;") != std::string::npos;
  const std::string choices =
      flag.choices.empty() ? "" : (has_colon ? "; one of " : ": ") + c10::Join(", ", flag.choices);
  const std::string alias = flag.short_name.empty() ? "" : "(or --" + flag.short_name + ") ";
  const std::string end =
      flag.is_required ? "[required]" : "[default: " + default_text(flag, defaults) + "]";
  return flag.help + choices + " " + alias + end;
}

CLI::Option* declare(CLI::App& command, const FlagSpec& flag, const std::string& name) {
  auto* option = command.add_option("--" + name, flag.help);
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  option->expected(flag.is_switch() ? 0 : 1, static_cast<int>(flag.most_words));
  return option;
}

}  // namespace

bool is_assignment(const FlagTable& table, const std::string& word) {
  const size_t equals = word.find('=');
  return equals != std::string::npos && table.find(word.substr(0, equals)) != nullptr;
}

void declare_flags(CLI::App& command, const FlagTable& table) {
  command.allow_extras();  // read_command_line() has better messages for unknown flags
  command.validate_positionals();
  command.add_option(kAssignments)
      ->expected(0, static_cast<int>(FlagSpec::kManyWords))
      ->allow_extra_args()
      ->check([&table](const std::string& word) {
        return is_assignment(table, word) ? std::string() : std::string("not key=value");
      })
      ->group("");
  command
      .add_option("--config",
                  "YAML file with flags and their values; the command line takes precedence")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->option_text("FILE");
  for (const FlagSpec& flag : table.flags) {
    declare(command, flag, flag.name)
        ->option_text(flag.unit)
        ->description(help_text(flag, table.defaults))
        ->group(flag.group);
    for (const std::string& other : flag.other_names) {
      declare(command, flag, other)->group("");  // accepted, but not in --help
    }
    if (flag.is_switch()) {
      command.add_flag("--no_" + flag.name)->disable_flag_override()->group("");
    }
  }
}

}  // namespace reprise::app
