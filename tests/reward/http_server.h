// An HTTP server for tests: answers each request on 127.0.0.1 with the next of its scripted texts.
#pragma once

#include <arpa/inet.h>
#include <c10/util/Exception.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace reprise::testing {

inline std::string http_response(const std::string& status,
                                 const std::string& body,
                                 const std::string& headers = "") {
  return "HTTP/1.1 " + status + "\r\nConnection: close\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

class HttpServer {
 public:
  /// The last answer is given again and again. An empty one: none at all, the client waits.
  explicit HttpServer(std::vector<std::string> answers) : answers_(std::move(answers)) {
    setenv("no_proxy", "127.0.0.1", /*overwrite=*/1);
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    TORCH_CHECK(listener_ >= 0 && ::bind(listener_, plain, size) == 0 &&
                    ::listen(listener_, 8) == 0 && ::getsockname(listener_, plain, &size) == 0,
                "no socket on 127.0.0.1");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~HttpServer() {
    is_stopped_ = true;
    thread_.join();
    for (const int connection : held_) {
      ::close(connection);
    }
    ::close(listener_);
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string url(const std::string& path = "/score") const {
    return "http://127.0.0.1:" + std::to_string(port_) + path;
  }

  /// Requests as they came, head and body.
  std::vector<std::string> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  static bool is_readable(int descriptor) {
    pollfd waiting{descriptor, POLLIN, 0};
    return ::poll(&waiting, 1, /*timeout_ms=*/10) > 0;
  }

  void serve() {
    while (!is_stopped_) {
      if (!is_readable(listener_)) {
        continue;
      }
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection >= 0) {
        answer(connection);
      }
    }
  }

  void answer(int connection) {
    const std::string request = read_request(connection);
    std::string text;
    {
      const std::lock_guard lock(mutex_);
      text = answers_[std::min(requests_.size(), answers_.size() - 1)];
      requests_.push_back(request);
    }
    if (text.empty()) {
      held_.push_back(connection);
      return;
    }
    for (size_t sent = 0; sent < text.size();) {
      const ssize_t count =
          ::send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) {
        break;
      }
      sent += static_cast<size_t>(count);
    }
    ::close(connection);
  }

  std::string read_request(int connection) const {
    std::string text;
    std::array<char, 4096> buffer{};
    while (!is_stopped_ && !is_whole(text)) {
      if (!is_readable(connection)) {
        continue;
      }
      const ssize_t count = ::recv(connection, buffer.data(), buffer.size(), 0);
      if (count <= 0) {
        break;
      }
      text.append(buffer.data(), static_cast<size_t>(count));
    }
    return text;
  }

  static bool is_whole(const std::string& text) {
    const size_t head = text.find("\r\n\r\n");
    const size_t length = text.find("Content-Length: ");
    return head != std::string::npos && length < head &&
           text.size() >= head + 4 + std::strtoull(text.c_str() + length + 16, nullptr, 10);
  }

  std::vector<std::string> answers_, requests_;
  mutable std::mutex mutex_;
  std::atomic<bool> is_stopped_{false};
  int listener_ = -1;
  int port_ = 0;
  std::vector<int> held_;
  std::thread thread_;
};

}  // namespace reprise::testing
