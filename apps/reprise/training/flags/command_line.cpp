#include "reprise/training/flags/command_line.h"

#include "reprise/training/flags/parallel_flags.h"
#include "reprise/training/flags/suggest.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <sstream>
#include <utility>

namespace reprise::app {

namespace {

using Words = std::vector<std::string>;

std::string default_text(const FlagSpec& flag, const TrainingFlags& defaults) {
  const Json value = value_of(defaults, flag);
  if (value.is_null() || value.empty()) {
    return flag.unset;
  }
  Words texts;
  for (const Json& item : value.is_array() ? value : Json::array({value})) {
    const bool is_plain = item.is_string() && item != "\n";
    texts.push_back(is_plain ? item.get<std::string>() : item.dump());
  }
  return c10::Join(" ", texts);
}

/// Breaks a help text into lines that fit beside the names; `last` is not broken.
std::string wrap(const std::string& text, const std::string& last) {
  constexpr size_t kColumns = 68;
  Words words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) {
    words.push_back(word);
  }
  words.push_back(last);
  std::string wrapped = words.front();
  size_t column = wrapped.size();
  for (size_t i = 1; i < words.size(); ++i) {
    const bool fits = column + 1 + words[i].size() <= kColumns;
    wrapped += (fits ? " " : "\n") + words[i];
    column = words[i].size() + (fits ? column + 1 : 0);
  }
  return wrapped;
}

std::string help_text(const FlagSpec& flag, const TrainingFlags& defaults) {
  const bool has_colon = flag.help.find_first_of(":;") != std::string::npos;
  const std::string choices =
      flag.choices.empty() ? "" : (has_colon ? "; one of " : ": ") + c10::Join(", ", flag.choices);
  const std::string alias = flag.short_name.empty() ? "" : "(or --" + flag.short_name + ") ";
  const std::string end =
      flag.is_required ? "[required]" : "[default: " + default_text(flag, defaults) + "]";
  return wrap(flag.help + choices, alias + end);
}

CLI::Option* declare(CLI::App& command, const FlagSpec& flag, const std::string& name) {
  auto* option = command.add_option("--" + name, flag.help);
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  option->expected(flag.is_switch() ? 0 : 1, static_cast<int>(flag.most_words));
  return option;
}

/// Collects values by flag and refuses a flag that is given twice.
class Collector {
 public:
  explicit Collector(const FlagTable& table) : table_(table) {}

  void add(const FlagSpec& flag, Words words, const std::string& written) {
    const auto [given, is_new] = given_.emplace(flag.name, GivenValue{value(flag, words), written});
    TORCH_CHECK(is_new,
                "--",
                flag.name,
                " was given twice, as ",
                given->second.where,
                " and as ",
                written,
                ": give it once");
  }

  /// Takes a word key=value, as some programs write flags; false if it names none of ours.
  bool add_assignment(const std::string& word) {
    const size_t equals = word.find('=');
    const FlagSpec* flag =
        equals == std::string::npos ? nullptr : table_.find(word.substr(0, equals));
    if (flag != nullptr) {
      add(*flag, {word.substr(equals + 1)}, word.substr(0, equals + 1));
    }
    return flag != nullptr;
  }

  void add_option(const FlagSpec& flag, const CLI::Option& option, const std::string& name) {
    if (option.empty()) {
      return;
    }
    Words words;
    for (const std::string& word : option.results()) {
      // An option with any number of values has also collected the key=value words behind it.
      if (!(flag.is_switch() || flag.most_words > 1) || !add_assignment(word)) {
        words.push_back(flag.is_switch() && word.empty() ? "true" : word);
      }
    }
    if (words.empty() && flag.is_switch()) {
      words = {"true"};
    }
    TORCH_CHECK(!words.empty(), name, " needs a value");
    TORCH_CHECK(
        words.size() <= flag.most_words, name, " was given ", words.size(), " values: give it one");
    add(flag, std::move(words), name);
  }

  GivenValues take() { return std::move(given_); }

 private:
  static Json value(const FlagSpec& flag, const Words& words) {
    if (flag.most_words == 1) {
      return words.front();
    }
    Words all;
    for (const std::string& word : words) {
      std::istringstream parts(word);
      std::string part;
      while (flag.splits_at_commas && std::getline(parts, part, ',')) {
        all.push_back(part);
      }
      if (!flag.splits_at_commas) {
        all.push_back(word);
      }
    }
    return all;
  }

  const FlagTable& table_;
  GivenValues given_;
};

[[noreturn]] void refuse_flag(const CLI::App& command, const FlagTable& table, std::string word) {
  word = word.substr(0, word.find('='));
  const std::string name = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  Words others;
  for (const Objective other : kObjectives) {
    if (find_flag(other, name) != nullptr) {
      others.push_back(to_string(other));
    }
  }
  TORCH_CHECK(others.empty(),
              word,
              " means nothing for ",
              table.command,
              ": it is a flag of ",
              c10::Join(", ", others));
  refuse_other_parallelism(name);
  const std::string suggestion = suggest_flag(command, word);
  TORCH_CHECK(false,
              word,
              ": there is no such flag",
              suggestion.empty() ? ". --help lists them" : "; " + suggestion);
}

}  // namespace

void declare_flags(CLI::App& command, const FlagTable& table) {
  command.allow_extras();  // read_command_line() has better messages for unknown flags
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

GivenValues read_command_line(const CLI::App& command, const FlagTable& table) {
  Collector collector(table);
  for (const FlagSpec& flag : table.flags) {
    for (const std::string& each : flag.names()) {
      const std::string name = "--" + each;
      collector.add_option(flag, *command.get_option(name), name);
    }
    const std::string negation = "--no_" + flag.name;
    if (flag.is_switch() && command.count(negation) > 0) {
      collector.add(flag, {"false"}, negation);
    }
  }
  for (const std::string& word : command.remaining()) {
    if (word.starts_with("-")) {
      refuse_flag(command, table, word);
    }
    if (!collector.add_assignment(word)) {
      if (word.find('=') != std::string::npos) {
        refuse_flag(command, table, word);
      }
      TORCH_CHECK(false, "\"", word, "\" belongs to no flag: expected --name value or name=value");
    }
  }
  return collector.take();
}

std::string config_file(const CLI::App& command) {
  const auto& files = command.get_option("--config")->results();
  TORCH_CHECK(files.size() <= 1, "--config was given ", files.size(), " times: give it once");
  return files.empty() ? "" : files.front();
}

}  // namespace reprise::app
