// How the program writes the library's messages. The library has options, not flags, and quotes
// their names in backticks: "lower `learning_rate`". A user of the program knows them as flags.
#pragma once

#include <string>

namespace reprise::app {

/// Replaces `name` by --name wherever it is the name of a flag of some training command.
std::string with_flag_names(const std::string& text);

}  // namespace reprise::app
