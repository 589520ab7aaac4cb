#include "dist/handshake.h"

#include <c10/util/Exception.h>

#include <array>

namespace reprise::dist {

namespace {

constexpr char kWelcome = '+';
constexpr char kRefused = '-';

}  // namespace

std::string proof_of(std::string_view role,
                     std::string_view secret,
                     std::string_view server_nonce,
                     std::string_view client_nonce) {
  std::string message("reprise world ");
  message.append(role).append(1, '\0').append(server_nonce).append(client_nonce);
  return hmac_sha256(secret, message);
}

Verdict judge(std::string_view client_bytes, std::string_view secret, std::string_view nonce) {
  const auto client_nonce = client_bytes.substr(0, kNonceBytes);
  const auto expected = proof_of("client", secret, nonce, client_nonce);
  if (!is_equal_secretly(expected, client_bytes.substr(kNonceBytes))) {
    return {false, std::string(1, kRefused) + std::string(kDigestBytes, '\0')};
  }
  return {true, kWelcome + proof_of("server", secret, nonce, client_nonce)};
}

void prove(const Socket& socket,
           std::string_view secret,
           const std::string& rank,
           const std::string& where,
           Deadline deadline) {
  std::array<char, kGreetingBytes> greeting{};
  const std::string_view seen(greeting.data(), greeting.size());
  TORCH_CHECK(socket.receive(greeting.data(), greeting.size(), deadline) &&
                  seen.substr(0, kMagic.size()) == kMagic,
              "[world] ",
              rank,
              " found no world of Reprise at ",
              where,
              ": another program uses the port, or rank 0 is stopped. Set MASTER_PORT to a free "
              "port");
  const auto server_nonce = seen.substr(kMagic.size());
  const auto nonce = random_bytes(kNonceBytes);
  std::array<char, kVerdictBytes> verdict{};
  const bool has_verdict =
      socket.send(nonce + proof_of("client", secret, server_nonce, nonce), deadline) &&
      socket.receive(verdict.data(), verdict.size(), deadline);
  TORCH_CHECK(has_verdict, "[world] ", rank, " got no answer from rank 0 at ", where);
  TORCH_CHECK(verdict[0] != kRefused,
              "[world] ",
              rank,
              " was refused by rank 0 at ",
              where,
              ": their secrets differ. Give all processes the same REPRISE_WORLD_SECRET or "
              "REPRISE_WORLD_SECRET_FILE");
  TORCH_CHECK(is_equal_secretly({verdict.data() + 1, kDigestBytes},
                                proof_of("server", secret, server_nonce, nonce)),
              "[world] who listens at ",
              where,
              " does not know the secret of this world, so it is not rank 0: a stranger uses the "
              "port. Set MASTER_PORT to a free port");
}

}  // namespace reprise::dist
