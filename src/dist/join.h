// The roll call: a world begins when every rank is there once and all say the same size. Whoever
// finds that it cannot be says so to all, so that nobody waits for it.
#pragma once

#include "dist/network.h"

#include <reprise/dist/connect.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>

namespace reprise::dist {

/// Returns the address at which this process listens for the others; throws in all processes if
/// a rank is missing at the deadline or there twice, or the sizes differ.
std::string join(c10d::Store& store, const WorldPlace& place, Deadline deadline);

}  // namespace reprise::dist
