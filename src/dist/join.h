// The roll call: a world begins once every rank has joined exactly once with the same size. A
// process that finds an error announces it to all, so that nobody waits in vain.
#pragma once

#include "dist/socket.h"

#include <reprise/dist/connect.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>

namespace reprise::dist {

/// Returns the address at which this process listens for the others. Throws in all processes if a
/// rank is missing at the deadline, if two processes have the same rank, or if the sizes differ.
std::string join(c10d::Store& store, const Rendezvous& rendezvous, Deadline deadline);

}  // namespace reprise::dist
