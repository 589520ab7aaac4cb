// A flag as --help shows it.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace reprise::app {

struct HelpEntry {
  std::string name;    ///< "--stop"; of a positional its name alone
  std::string unit;    ///< "TEXT ..."; empty: a switch
  std::string text;    ///< without default
  std::string ending;  ///< "[default: 8]", "[required]", "(or --seq) [default: 1024]"; may be empty
  std::string group;
  std::vector<std::string> choices;  ///< those that `text` does not have
  std::string range;                 ///< of numbers: "2 to 1024"

  std::string heading() const { return unit.empty() ? name : name + " " + unit; }
  /// The first clause, with the default in brackets.
  std::string brief() const;
  std::string full() const;
};

/// The flags of a command that are not hidden, in the order of their declaration.
std::vector<HelpEntry> help_entries(const CLI::App& command);

}  // namespace reprise::app
