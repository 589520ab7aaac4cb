// What --help shows of a command besides its flags: which of them are common, examples, and where
// to read on.
#pragma once

#include <string>
#include <vector>

namespace reprise::app {

struct HelpPage {
  std::string command;
  /// Flags on the first screen, in this order; empty: all of them.
  std::vector<std::string> common;
  std::vector<std::string> examples;  ///< two; a line break is part of the command
  std::string document;               ///< that describes the command
};

/// The page of a command or of an alias. `command` is empty for the program itself.
HelpPage help_page(const std::string& command);

/// The document about a group of flags; the command's own if the group has none.
std::string document_of_group(const std::string& group, const HelpPage& page);

}  // namespace reprise::app
