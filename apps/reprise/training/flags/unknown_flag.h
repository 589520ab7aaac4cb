// What is said about a flag that a command does not have.
#pragma once

#include "reprise/training/flags/flag_table.h"

#include <string>

namespace reprise::app {

/// To be read behind the flag or the key: " means nothing for sft: it is a flag of dpo", or what
/// docs/migrating.md says of another program's flag; empty if nothing is known about it.
std::string about_unknown_flag(const FlagTable& table,
                               const std::string& name,
                               const std::string& value);

}  // namespace reprise::app
