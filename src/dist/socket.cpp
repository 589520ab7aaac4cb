#include "dist/socket.h"

#include <c10/util/Exception.h>

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

namespace reprise::dist {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

struct Lookup {
  AddressList addresses;
  std::string failure;
};

Lookup look_up(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  return {{error == 0 ? found : nullptr, &freeaddrinfo}, error == 0 ? "" : gai_strerror(error)};
}

/// False at the deadline.
bool await(int handle, short event, Deadline deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left <= 0ms) {
      return false;
    }
    pollfd one{handle, event, 0};
    const int ready = ::poll(&one, 1, static_cast<int>(std::min<int64_t>(left.count(), 60'000)));
    if (ready > 0) {
      return true;
    }
    if (ready < 0 && errno != EINTR) {
      return false;
    }
  }
}

Socket make_socket(const addrinfo& address) {
  return Socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

void send_at_once(int handle) {
  const int yes = 1;
  ::setsockopt(handle, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

bool is_connected(const Socket& socket, const addrinfo& address, Deadline deadline) {
  if (!socket.is_open()) {
    return false;
  }
  if (::connect(socket.handle(), address.ai_addr, address.ai_addrlen) != 0) {
    int error = 0;
    socklen_t length = sizeof(error);
    if (errno != EINPROGRESS || !await(socket.handle(), POLLOUT, deadline) ||
        ::getsockopt(socket.handle(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) {
      return false;
    }
  }
  send_at_once(socket.handle());
  return true;
}

}  // namespace

void Socket::close() {
  if (handle_ >= 0) {
    ::close(std::exchange(handle_, -1));
  }
}

bool Socket::send(std::string_view bytes, Deadline deadline) const {
  while (!bytes.empty()) {
    const ssize_t count = ::send(handle_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count > 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!await(handle_, POLLOUT, deadline)) {
        return false;
      }
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool Socket::receive(char* bytes, size_t count, Deadline deadline) const {
  while (count > 0) {
    const ssize_t got = ::recv(handle_, bytes, count, 0);
    if (got > 0) {
      bytes += got;
      count -= static_cast<size_t>(got);
    } else if (got == 0) {
      return false;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!await(handle_, POLLIN, deadline)) {
        return false;
      }
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

Endpoint Socket::endpoint() const {
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (getsockname(handle_, reinterpret_cast<sockaddr*>(&own), &length) != 0 ||
      getnameinfo(reinterpret_cast<const sockaddr*>(&own),
                  length,
                  host.data(),
                  host.size(),
                  port.data(),
                  port.size(),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return {};
  }
  return {host.data(), std::atoi(port.data())};
}

Socket connect_to(const std::string& host, int port, Deadline deadline) {
  constexpr auto kPause = 20ms;
  do {
    const auto found = look_up(host, port, 0);
    for (const auto* each = found.addresses.get(); each != nullptr; each = each->ai_next) {
      auto socket = make_socket(*each);
      // Behind a firewall that drops packets, a connection would be tried for minutes.
      if (is_connected(socket, *each, std::min(deadline, Clock::now() + 1s))) {
        return socket;
      }
    }
    std::this_thread::sleep_for(kPause);
  } while (Clock::now() < deadline);
  return {};
}

Socket listen_at(const std::string& host, int port) {
  const auto found = look_up(host, port, 0);
  TORCH_CHECK(found.addresses != nullptr, host, " has no address: ", found.failure);
  std::string reason;
  for (const auto* each = found.addresses.get(); each != nullptr; each = each->ai_next) {
    auto socket = make_socket(*each);
    const int yes = 1;
    if (socket.is_open() &&
        ::setsockopt(socket.handle(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
        ::bind(socket.handle(), each->ai_addr, each->ai_addrlen) == 0 &&
        ::listen(socket.handle(), SOMAXCONN) == 0) {
      return socket;
    }
    reason = std::strerror(errno);
  }
  TORCH_CHECK(false, reason);
}

Socket accept_from(const Socket& listener) {
  Socket socket(::accept4(listener.handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.is_open()) {
    send_at_once(socket.handle());
  }
  return socket;
}

}  // namespace reprise::dist
