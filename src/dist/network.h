// What a process needs to know about the network to find the others.
#pragma once

#include <string>

namespace reprise::dist {

/// Equal in two processes if they can reach each other by the loopback address. Containers and
/// network namespaces on one machine have different ids.
std::string machine_id();

/// The address of this machine on the route to `host`; empty if there is no route.
std::string address_towards(const std::string& host);

bool is_loopback(const std::string& address);

}  // namespace reprise::dist
