// Flags on a command line: declares them to CLI11 and reads what it has collected.
#pragma once

#include "reprise/training/flags/flag_table.h"

#include <CLI/CLI.hpp>

#include <string>

namespace reprise::app {

/// Declares --config, all flags with their aliases, and --no_x for switches. CLI11 only collects
/// the words; assign() interprets them, as it does values of config files.
void declare_flags(CLI::App& command, const FlagTable& table);

/// The values given as --name value or name=value. Throws for unknown flags, for a flag given
/// twice, and for words that belong to no flag.
GivenValues read_command_line(const CLI::App& command, const FlagTable& table);

/// The file given by --config; empty: none.
std::string config_file(const CLI::App& command);

}  // namespace reprise::app
