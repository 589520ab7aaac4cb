// libFuzzer: what a process that knows the secret sends to the store of rank 0. The store answers
// or closes the connection, whatever the pieces in which it comes, and serves the next one. Few
// inputs, always the same ones, go through sockets and the server's thread too, which takes a
// thousand times as long.
#include "dist/handshake.h"
#include "dist/store_message.h"
#include "dist/store_requests.h"
#include "dist/store_server.h"

#include <sys/socket.h>
#include <zlib.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <algorithm>
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
constexpr uint32_t kInputsPerConnection = 1024;

/// A store serves many inputs, as it does in a run, but not so many that its keys fill the memory.
constexpr int kInputsPerStore = 256;

/// The answers to these bytes, of a store that has no keys yet.
std::string answers_to(std::string_view bytes, size_t piece) {
  c10d::HashStore values;
  std::string in, out;
  bool is_open = true;
  while (is_open && !bytes.empty()) {
    in += bytes.substr(0, piece);
    bytes.remove_prefix(std::min(piece, bytes.size()));
    is_open = take_requests(values, in, out);
  }
  return out;
}

void check_answers(std::string_view answers) {
  while (!answers.empty()) {
    if (answers.size() < kLengthBytes || decoded_length(answers) > answers.size() - kLengthBytes ||
        !decoded(answers.substr(kLengthBytes, decoded_length(answers)))) {
      std::abort();
    }
    answers.remove_prefix(kLengthBytes + decoded_length(answers));
  }
}

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

void connect_and_talk(std::string_view bytes) {
  static std::optional<Store> store;
  static int served = 0;
  if (served++ % kInputsPerStore == 0) {
    store.reset();
    store.emplace();
  }
  talk(store->port, bytes);
  talk(store->port, encoded({StoreMessageKind::Count}));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string answers = answers_to(bytes, std::max<size_t>(size, 1));
  check_answers(answers);
  if (answers_to(bytes, 1 + size % 13) != answers) {
    std::abort();
  }
  if (crc32_z(crc32_z(0, nullptr, 0), data, size) % kInputsPerConnection == 0) {
    connect_and_talk(bytes);
  }
  return 0;
}
