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
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace {

using namespace reprise::dist;
using Clock = std::chrono::steady_clock;

constexpr const char* kHost = "127.0.0.1";
constexpr std::string_view kSecret = "secret";

/// A store serves many inputs, as it does in a run, but not so many that its keys fill the memory.
constexpr int kInputsPerStore = 256;

struct Store {
  Socket listener = listen_at(kHost, 0);
  int port = listener.endpoint().port;
  StoreServer server{std::move(listener), std::string(kSecret)};
};

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
  static std::optional<Store> store;
  static int served = 0;
  if (served++ % kInputsPerStore == 0) {
    store.reset();
    store.emplace();
  }
  talk(store->port, {reinterpret_cast<const char*>(data), size});
  talk(store->port, encoded({StoreMessageKind::Count}));
  return 0;
}
