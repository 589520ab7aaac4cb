// Flags on a command line: declares them to CLI11 and reads what it has collected.
#pragma once

#include "reprise/training/flags/flag_table.h"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace reprise::app {

/// Declares --config, all flags with their aliases, and --no_x for switches. CLI11 only collects
/// the words; assign() interprets them, as it does values of config files.
void declare_flags(CLI::App& command, const FlagTable& table);

/// The option that takes words key=value of flags in the table.
inline constexpr const char* kAssignments = "assignments";
bool is_assignment(const FlagTable& table, const std::string& word);

struct CommandLine {
  GivenValues given;
  std::string config;              ///< the file given by --config; empty: none
  std::vector<std::string> notes;  ///< a line for each flag that was given more than once
};

/// The values given as --name value or name=value; of a flag that is given twice, the last. Throws
/// for unknown flags, all in one message, and for words that belong to no flag.
CommandLine read_command_line(const CLI::App& command, const FlagTable& table);

}  // namespace reprise::app
