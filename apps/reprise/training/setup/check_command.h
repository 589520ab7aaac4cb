// Whether a shell can run a command, without running it.
#pragma once

#include <string>

namespace reprise::app {

/// Throws "FLAG: …" if the shell cannot parse the command, or if its first word, where that is a
/// plain name, is no program.
void check_command(const char* flag, const std::string& command);

}  // namespace reprise::app
