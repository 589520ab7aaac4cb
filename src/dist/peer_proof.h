// Every pair of processes proves that both know the world's secret, over the connection that their
// tensors will take.
//
// Gloo listens at an address of its own and takes the first that connects for the peer that it
// expects. A stranger who came first is found here, before anything else is sent.
#pragma once

#include "dist/groups.h"

#include <string_view>

namespace reprise::dist {

/// Uses the tags 0 and 1. Throws, naming the rank, if one does not know the secret.
REPRISE_API void prove_to_peers(c10d::Backend& group, std::string_view secret);

}  // namespace reprise::dist
