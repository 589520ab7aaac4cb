#include "reprise/help/help_text.h"

#include "reprise/help/help_entry.h"
#include "reprise/help/help_page.h"
#include "reprise/help/one_flag.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <sstream>

namespace reprise::app {

namespace {

using Words = std::vector<std::string>;

std::string line_of(const std::string& heading, const std::string& text, size_t column) {
  std::string line = "  " + heading;
  const bool fits = line.size() + 2 <= column;
  line += fits ? std::string(column - line.size(), ' ') : "\n" + std::string(column, ' ');
  return line + wrapped(text, column, column) + "\n";
}

std::string examples_text(const HelpPage& page) {
  std::string text = "\nExamples:\n";
  for (const std::string& example : page.examples) {
    text += "  " + example + "\n";
  }
  return text;
}

std::string usage_of(const CLI::App& command, const std::vector<HelpEntry>& entries) {
  std::string usage = "usage: reprise " + command.get_name();
  for (const HelpEntry& entry : entries) {
    usage += entry.name.starts_with("-") ? "" : " " + entry.unit;
  }
  const bool launches = command.get_name() == "launch";
  return usage + (launches ? " [flags] -- COMMAND [its flags]" : " [flags]") + "\n";
}

std::string beginning(const CLI::App& command, const std::vector<HelpEntry>& entries) {
  return wrapped(command.get_description(), 0, 0) + "\n" + usage_of(command, entries);
}

std::string footer_of(const CLI::App& command) {
  std::istringstream lines(command.get_footer());
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    text += wrapped(line, 0, 0) + "\n";
  }
  return text.empty() ? "" : "\n" + text;
}

std::string first_screen(const CLI::App& command) {
  constexpr size_t kColumn = 36;
  const HelpPage page = help_page(command.get_name());
  const auto entries = help_entries(command);
  std::vector<HelpEntry> shown;
  for (const std::string& name : page.common) {
    const auto found = std::find_if(entries.begin(), entries.end(), [&](const HelpEntry& entry) {
      return entry.name == "--" + name;
    });
    if (found != entries.end()) {
      shown.push_back(*found);
    }
  }
  const bool has_all = shown.empty();
  if (has_all) {
    shown = entries;
  }
  std::string text = beginning(command, entries) + "\n";
  for (const HelpEntry& entry : shown) {
    text += line_of(entry.heading(), entry.brief(), kColumn);
  }
  text += footer_of(command) + examples_text(page);
  const std::string help = "reprise " + command.get_name() + " --help ";
  return text + "\n" +
         (has_all ? help + "NAME explains a flag; "
                  : help + "all lists all " + std::to_string(entries.size()) + " flags,\n" + help +
                        "NAME explains one; ") +
         page.document + " tells more.\n";
}

std::string all_flags(const CLI::App& command) {
  constexpr size_t kColumn = 26;
  const auto entries = help_entries(command);
  Words groups;
  for (const HelpEntry& entry : entries) {
    if (std::find(groups.begin(), groups.end(), entry.group) == groups.end()) {
      groups.push_back(entry.group);
    }
  }
  std::string text = beginning(command, entries);
  for (const std::string& group : groups) {
    text += "\n" + (group == "Options" ? "Flags" : group) + ":\n";
    for (const HelpEntry& entry : entries) {
      text += entry.group == group ? line_of(entry.heading(), entry.full(), kColumn) : "";
    }
  }
  return text + footer_of(command) + examples_text(help_page(command.get_name()));
}

std::string all_commands(const CLI::App& app) {
  constexpr size_t kColumn = 14;
  std::string text =
      app.get_description() + "\nusage: reprise COMMAND [flags], or reprise --version\n\n";
  for (const CLI::App* const command :
       app.get_subcommands([](const CLI::App* each) { return !each->get_name().empty(); })) {
    text += line_of(command->get_name(), command->get_description(), kColumn);
  }
  return text + examples_text(help_page("")) +
         "\nreprise COMMAND --help shows its common flags, reprise COMMAND --help all every\n"
         "flag, reprise COMMAND --help NAME one of them.\n";
}

bool asks_for_help(const std::string& word) {
  return word == "--help" || word == "-h" || word.starts_with("--help=");
}

std::string topic_behind(const Words& words, size_t at) {
  const size_t equals = words[at].find('=');
  const bool has_next = equals == std::string::npos && at + 1 < words.size();
  const std::string topic = has_next                      ? words[at + 1]
                            : equals == std::string::npos ? ""
                                                          : words[at].substr(equals + 1);
  return topic.substr(std::min(topic.find_first_not_of('-'), topic.size()));
}

const CLI::App* command_named(const CLI::App& app, const std::string& name) {
  for (const CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->check_name(name)) {
      return command;
    }
  }
  return nullptr;
}

}  // namespace

std::string wrapped(const std::string& text, size_t start, size_t indent, size_t columns) {
  std::istringstream stream(text);
  std::string result;
  size_t column = start;
  for (std::string word, next; stream >> word;) {
    if (word == "(or" && stream >> next) {  // stays with the name behind it
      word += " " + next;
    }
    const bool is_first = result.empty();
    const bool fits = is_first || column + 1 + word.size() <= columns;
    result += is_first ? "" : fits ? " " : "\n" + std::string(indent, ' ');
    column = (is_first ? start : fits ? column + 1 : indent) + word.size();
    result += word;
  }
  return result;
}

std::optional<std::string> requested_help(const CLI::App& app, const Words& words) {
  const auto end = std::find(words.begin(), words.end(), "--");
  const auto found = std::find_if(words.begin(), end, asks_for_help);
  if (found == end) {  // `reprise launch -- sft --help` asks for that of sft
    return end == words.end() ? std::nullopt : requested_help(app, {end + 1, words.end()});
  }
  const std::string topic = topic_behind(words, static_cast<size_t>(found - words.begin()));
  const CLI::App* command = found == words.begin() ? nullptr : command_named(app, words.front());
  if (command == nullptr) {
    command = command_named(app, topic);  // `reprise --help sft`
    return command == nullptr ? all_commands(app) : first_screen(*command);
  }
  return topic.empty()    ? first_screen(*command)
         : topic == "all" ? all_flags(*command)
                          : one_flag(*command, topic);
}

}  // namespace reprise::app
