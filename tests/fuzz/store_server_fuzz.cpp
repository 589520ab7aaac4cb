// libFuzzer: what a process that knows the secret sends to the store of rank 0. The store answers
// or closes the connection, and serves the next one.
#include "dist/handshake.h"
#include "dist/store_message.h"
#include "dist/store_server.h"

#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

using namespace reprise::dist;
using Clock = std::chrono::steady_clock;

constexpr const char* kHost = "127.0.0.1";
constexpr std::string_view kSecret = "secret";

/// Sends the bytes and reads whole answers until the store closes the connection.
void talk(int port, std::string_view bytes) {
  const Deadline deadline = Clock::now() + std::chrono::seconds(10);
  const Socket socket = connect_to(kHost, port, deadline);
  prove(socket, kSecret, "rank 1 of 2", kHost, deadline);
  socket.send(bytes, deadline);  // not all, if the store closes the connection
  ::shutdown(socket.handle(), SHUT_WR);
  std::array<char, kLengthBytes> length{};
  while (socket.receive(length.data(), length.size(), deadline)) {
    std::string answer(decoded_length({length.data(), length.size()}), '\0');
    if (!socket.receive(answer.data(), answer.size(), deadline)) {
      break;
    }
    if (!decoded(answer)) {
      std::abort();
    }
  }
  if (Clock::now() > deadline) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Socket listener = listen_at(kHost, 0);
  const int port = listener.endpoint().port;
  const StoreServer server(std::move(listener), std::string(kSecret));
  talk(port, {reinterpret_cast<const char*>(data), size});
  talk(port, encoded({StoreMessageKind::Count}));
  return 0;
}
