// A TCP socket with deadlines: nothing here blocks longer than the caller says.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::dist {

using Deadline = std::chrono::steady_clock::time_point;

/// A numeric address and a port.
struct Endpoint {
  std::string address;
  int port = 0;
};

class Socket {
 public:
  Socket() = default;
  explicit Socket(int handle) : handle_(handle) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : handle_(std::exchange(other.handle_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  int handle() const { return handle_; }
  bool is_open() const { return handle_ >= 0; }
  explicit operator bool() const { return is_open(); }
  void close();

  /// Exactly these bytes; false at the deadline, or if the other side is gone.
  bool send(std::string_view bytes, Deadline deadline) const;
  bool receive(char* bytes, size_t count, Deadline deadline) const;

  /// This side's end.
  Endpoint endpoint() const;

 private:
  int handle_ = -1;
};

/// Tries until somebody listens there; a closed socket if nobody does by the deadline.
Socket connect_to(const std::string& host, int port, Deadline deadline);

/// Listens at this address alone, never at all interfaces unless it is 0.0.0.0 or ::. Port 0: a
/// free one. Throws the system's reason.
Socket listen_at(const std::string& host, int port);

/// A connection that waits at a listening socket; closed if there is none. Does not block.
Socket accept_from(const Socket& listener);

}  // namespace reprise::dist
