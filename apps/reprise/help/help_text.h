// --help, the same for all commands: one screen with the common flags and examples; `--help all`
// with every flag in groups; `--help NAME` about one flag. 80 columns wide.
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

namespace reprise::app {

/// The help that a command line asks for; std::nullopt if it asks for none. Throws for a topic that
/// the command does not have.
std::optional<std::string> requested_help(const CLI::App& app,
                                          const std::vector<std::string>& words);

/// Breaks text into lines of at most `columns`, with `indent` spaces before all but the first,
/// which begins at column `start`.
std::string wrapped(const std::string& text, size_t start, size_t indent, size_t columns = 80);

}  // namespace reprise::app
