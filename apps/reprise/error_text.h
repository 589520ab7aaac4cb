// Errors as the program prints them.
#pragma once

#include <CLI/CLI.hpp>

#include <exception>
#include <string>

namespace reprise::app {

/// error_text() with names of flags instead of options, and without passwords in URLs.
std::string shown_error(const std::exception& error);

/// Prints what CLI11 says about a command line that it does not understand, or --help; returns the
/// exit code.
int print_parse_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace reprise::app
