#include "dist/network.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

namespace reprise::dist {

namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

class Socket {
 public:
  explicit Socket(const addrinfo& address)
      : handle_(socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, 0)) {
    // Behind a firewall that drops packets, connect() would block for minutes.
    const timeval timeout{.tv_sec = 1, .tv_usec = 0};
    is_connected_ = handle_ >= 0 &&
                    setsockopt(handle_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) == 0 &&
                    connect(handle_, address.ai_addr, address.ai_addrlen) == 0;
  }
  ~Socket() {
    if (handle_ >= 0) {
      close(handle_);
    }
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  bool is_connected() const { return is_connected_; }

  std::string own_address() const {
    sockaddr_storage own{};
    socklen_t length = sizeof(own);
    std::array<char, NI_MAXHOST> text{};
    const auto* generic = reinterpret_cast<const sockaddr*>(&own);
    const bool is_known =
        getsockname(handle_, reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
        getnameinfo(generic, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0;
    return is_known ? text.data() : "";
  }

 private:
  int handle_;
  bool is_connected_ = false;
};

Addresses resolve(const std::string& host, int port, int type) {
  addrinfo hints{};
  hints.ai_socktype = type;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    found = nullptr;
  }
  return {found, &freeaddrinfo};
}

}  // namespace

std::string machine_id() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::error_code ignored;
  return boot + std::filesystem::read_symlink("/proc/self/ns/net", ignored).string();
}

std::string address_towards(const std::string& host) {
  // Connecting a datagram socket sends nothing: it only looks up the route.
  const auto addresses = resolve(host, 9, SOCK_DGRAM);
  for (const auto* each = addresses.get(); each != nullptr; each = each->ai_next) {
    const Socket probe(*each);
    if (probe.is_connected()) {
      return probe.own_address();
    }
  }
  return {};
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

bool await_listener(const std::string& host, int port, Deadline deadline) {
  constexpr auto kPause = std::chrono::milliseconds(20);
  do {
    const auto addresses = resolve(host, port, SOCK_STREAM);
    for (const auto* each = addresses.get(); each != nullptr; each = each->ai_next) {
      if (Socket(*each).is_connected()) {
        return true;
      }
    }
    std::this_thread::sleep_for(kPause);
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

}  // namespace reprise::dist
