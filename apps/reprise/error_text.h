// Errors as the program prints them: one line that says what is wrong, where, and what to do, for
// those of libraries too.
#pragma once

#include <CLI/CLI.hpp>

#include <exception>
#include <string>

namespace reprise::app {

/// The message of an exception, in our words if it is one of the standard library (files, memory)
/// or of LibTorch's allocators. Passwords in URLs are left out.
std::string error_text(const std::exception& error);

/// Prints what CLI11 says about a command line that it does not understand, or --help; returns the
/// exit code.
int print_parse_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace reprise::app
