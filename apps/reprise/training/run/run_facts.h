// Where, when and by which command a run was made, for its report. Secrets are left out.
#pragma once

#include <reprise/io/json.h>

#include <string>
#include <vector>

namespace reprise::app {

/// A command as a shell takes it. Users, passwords and queries of URLs are "***", and so are values
/// of flags that are named after a secret.
std::string command_text(const std::vector<std::string>& words);

/// date, host, version, libtorch and command of this process. `version` is the program's.
Json run_facts(const std::string& version);

}  // namespace reprise::app
