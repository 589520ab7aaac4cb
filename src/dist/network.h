// What a process has to know of the network to find the others.
#pragma once

#include <chrono>
#include <string>

namespace reprise::dist {

using Deadline = std::chrono::steady_clock::time_point;

/// The same in two processes if they can reach each other by the loopback address: containers and
/// network namespaces of one machine are apart.
std::string machine_id();

/// The address that this machine has on the way to another; empty if there is no way.
std::string address_towards(const std::string& host);

bool is_loopback(const std::string& address);

/// Returns when somebody listens there: true, or false at the deadline.
bool await_listener(const std::string& host, int port, Deadline deadline);

}  // namespace reprise::dist
