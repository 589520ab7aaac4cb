// A flag that is given twice, as by `reprise generate $ARGS --temperature 0`: the last one is used.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace reprise::app {

/// Lets the last of a repeated flag win, for the options that are added to `app` afterwards and for
/// its commands. Options with several values keep all of them.
void take_last_of_repeated_flags(CLI::App& app);

/// A line for each flag of the command that was given several times, with different values.
std::vector<std::string> notes_on_repeated_flags(const CLI::App& command);

}  // namespace reprise::app
