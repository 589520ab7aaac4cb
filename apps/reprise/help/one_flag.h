// `--help NAME`: all that is known about one flag.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace reprise::app {

/// `name` is without dashes, and may be an alias. Throws with a suggestion if there is no such
/// flag.
std::string one_flag(const CLI::App& command, const std::string& name);

}  // namespace reprise::app
