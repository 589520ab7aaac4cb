// libFuzzer: a stranger's bytes in the place of rank 0, of a process that joins, and of messages to
// and from the store. Who does not know the secret is refused; a message is the same after it was
// encoded again.
#include "dist/handshake.h"
#include "dist/store_message.h"

#include <c10/util/Exception.h>

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
constexpr std::string_view kSecret = "a secret that no input knows";

/// prove() with these bytes for an answer. True if it believes them.
bool is_believed(std::string_view bytes) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) != 0) {
    std::abort();
  }
  const Socket own(ends[0]);
  Socket other(ends[1]);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  other.send(bytes.substr(0, kGreetingBytes + kVerdictBytes), deadline);
  ::shutdown(other.handle(), SHUT_WR);
  try {
    prove(own, kSecret, "rank 1 of 2", "here", deadline);
  } catch (const c10::Error&) {
    return false;
  }
  return true;
}

/// As the server does with what a connection has sent.
bool is_welcome(std::string_view bytes) {
  const std::string nonce(kNonceBytes, 'n');
  return bytes.size() >= kClientProofBytes &&
         judge(bytes.substr(0, kClientProofBytes), kSecret, nonce).is_welcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (is_believed(bytes) || is_believed(std::string(kMagic).append(bytes)) || is_welcome(bytes)) {
    std::abort();
  }
  if (const auto message = decoded(bytes)) {
    const std::string again = encoded(*message);
    if (decoded_length(again) != size || again.substr(kLengthBytes) != bytes) {
      std::abort();
    }
  }
  return 0;
}
