// What a process needs to know about the network to find the others.
#pragma once

#include <chrono>
#include <string>

namespace reprise::dist {

using Deadline = std::chrono::steady_clock::time_point;

/// Equal in two processes if they can reach each other by the loopback address. Containers and
/// network namespaces on one machine have different ids.
std::string machine_id();

/// The address of this machine on the route to `host`; empty if there is no route.
std::string address_towards(const std::string& host);

bool is_loopback(const std::string& address);

/// Waits until somebody listens there. False if nobody does by the deadline.
bool await_listener(const std::string& host, int port, Deadline deadline);

}  // namespace reprise::dist
