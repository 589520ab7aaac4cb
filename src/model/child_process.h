// Tries code that may crash in a child process.
#pragma once

#include <reprise/export.h>

namespace reprise::model {

/// Runs `probe` in a child process and returns whether a signal killed it.
REPRISE_API bool dies_in_child(void (*probe)());

}  // namespace reprise::model
