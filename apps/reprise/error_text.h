// Errors as the program prints them, and command lines that are not understood.
#pragma once

#include <CLI/CLI.hpp>

#include <exception>
#include <string>

namespace reprise::app {

/// error_text() with names of flags instead of options, without passwords in URLs, and without the
/// tags that exceptions of the library begin with ("[data] ").
std::string shown_error(const std::exception& error);

/// Removes tags at the beginning of a message, of its lines, and of messages that it quotes.
std::string without_tags(const std::string& text);

/// Prints what is wrong with a command line, or --help; returns the exit code.
int print_parse_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace reprise::app
