// The flags that `reprise plan` shares with the training commands.
#pragma once

#include "reprise/training/flags/flag_table.h"

namespace reprise::app {

/// Flags of training by their names there, with short names for those that are typed often. The
/// defaults are those of a plan without a config file.
const FlagTable& plan_table();

}  // namespace reprise::app
