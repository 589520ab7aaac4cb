// Suggestions for names that do not exist.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace reprise::app {

/// The candidate with the smallest edit distance; empty if none is close.
std::string nearest(const std::string& name, const std::vector<std::string>& candidates);

/// "; did you mean NAME?"; empty for an empty name.
std::string did_you_mean(const std::string& name);

/// "did you mean --learning_rate?"; empty if no flag is close.
std::string suggest_flag(const std::vector<std::string>& flags, const std::string& unknown);
std::string suggest_flag(const CLI::App& command, const std::string& unknown);

}  // namespace reprise::app
