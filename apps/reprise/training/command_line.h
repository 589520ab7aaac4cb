// Flags on a command line: how CLI11 is told about them, and what it has read.
#pragma once

#include "reprise/training/flag_spec.h"

#include <CLI/CLI.hpp>

#include <string>

namespace reprise::app {

/// --config, all names of all flags, and --no_x for switches. CLI11 only collects the words; what
/// they mean is decided by assign(), as for config files.
void declare_flags(CLI::App& command, Objective objective);

/// The values given, also as words key=value. Throws for unknown names, a name given twice, and
/// words that belong to no flag.
GivenValues read_command_line(const CLI::App& command, Objective objective);

/// The file of --config; empty: not given.
std::string config_file(const CLI::App& command);

}  // namespace reprise::app
