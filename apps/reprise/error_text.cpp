#include "reprise/error_text.h"

#include "reprise/training/flags/option_names.h"
#include "reprise/training/flags/suggest.h"

#include <reprise/dist/error_text.h>
#include <reprise/reward/url.h>

#include <algorithm>
#include <iostream>
#include <regex>
#include <sstream>
#include <vector>

namespace reprise::app {

namespace {

std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* const command :
       app.get_subcommands([](const CLI::App* each) { return !each->get_name().empty(); })) {
    names.push_back(command->get_name());
    const auto& aliases = command->get_aliases();
    names.insert(names.end(), aliases.begin(), aliases.end());
  }
  return names;
}

/// The words of a command that are no flag of it.
std::string extra_words(const CLI::App& command) {
  const auto words = command.remaining();
  const auto flag = std::find_if(
      words.begin(), words.end(), [](const std::string& word) { return word.starts_with("-"); });
  const std::string help = "reprise " + command.get_name() + " --help lists its flags";
  if (flag == words.end()) {
    return command.get_name() + ": \"" + words.front() + "\" belongs to no flag. " + help;
  }
  const std::string name = flag->substr(0, flag->find('='));
  const std::string suggestion = suggest_flag(command, name);
  return command.get_name() + " " + name + ": there is no such flag" +
         (suggestion.empty() ? ". " + help : "; " + suggestion);
}

/// What is wrong, with the nearest thing that exists.
std::string parse_error_text(const CLI::App& app, const CLI::ParseError& error) {
  const auto commands = app.get_subcommands();
  const auto extra = app.remaining();
  if (commands.empty() && !extra.empty() && !extra.front().starts_with("-")) {
    const std::string near = did_you_mean(nearest(extra.front(), names_of_commands(app)));
    return "there is no command " + extra.front() + (near.empty() ? "." : near) +
           " reprise --help lists them";
  }
  if (commands.empty()) {
    return extra.empty() ? "a command is required. reprise --help lists them"
                         : extra.front() + ": there is no such flag. reprise --help lists commands";
  }
  if (!commands.front()->get_allow_extras() && !commands.front()->remaining().empty()) {
    return extra_words(*commands.front());
  }
  if (!extra.empty()) {
    return extra.front() + ": flags come behind the command: reprise " +
           commands.front()->get_name() + " " + extra.front();
  }
  const std::string what = error.what();
  if (error.get_name() == "ArgumentMismatch" && what.starts_with("--")) {
    return what.substr(0, what.find(':')) + " needs a value";
  }
  return commands.front()->get_name() + ": " + error.what() + ". reprise " +
         commands.front()->get_name() + " --help lists its flags";
}

}  // namespace

std::string without_tags(const std::string& text) {
  static const std::regex tag(R"((^|\n *|[:;] |\()\[[a-z][a-z_ ]{0,30}\] )");
  return std::regex_replace(text, tag, "$1");
}

std::string shown_error(const std::exception& error) {
  return without_tags(without_passwords(with_flag_names(error_text(error))));
}

int print_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream unused;
  const int code = app.exit(error, std::cout, unused);
  if (!unused.str().empty()) {
    std::cerr << "reprise: " << without_passwords(parse_error_text(app, error)) << "\n";
  }
  return code;
}

}  // namespace reprise::app
