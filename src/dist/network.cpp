#include "dist/network.h"

#include "dist/socket.h"

#include <netdb.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <memory>

namespace reprise::dist {

std::string machine_id() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::error_code ignored;
  return boot + std::filesystem::read_symlink("/proc/self/ns/net", ignored).string();
}

std::string address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0) {
    return {};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  for (const auto* each = found; each != nullptr; each = each->ai_next) {
    // Connecting a datagram socket sends nothing: it only looks up the route.
    const Socket probe(::socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (probe.is_open() && ::connect(probe.handle(), each->ai_addr, each->ai_addrlen) == 0) {
      return probe.endpoint().address;
    }
  }
  return {};
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

}  // namespace reprise::dist
