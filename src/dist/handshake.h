// How two processes prove to each other that they know the world's secret, which is never sent:
//
//   server -> client   magic, nonce of the server
//   client -> server   nonce of the client, HMAC(secret, "client", both nonces)
//   server -> client   verdict, HMAC(secret, "server", both nonces)
//
// Neither says anything else before it has seen the other's proof. What follows is neither
// encrypted nor signed: see SECURITY.md.
#pragma once

#include "dist/hmac.h"
#include "dist/socket.h"

#include <string>
#include <string_view>

namespace reprise::dist {

inline constexpr std::string_view kMagic = "REPRISE\x01";
inline constexpr size_t kNonceBytes = 32;
inline constexpr size_t kGreetingBytes = kMagic.size() + kNonceBytes;
inline constexpr size_t kClientProofBytes = kNonceBytes + kDigestBytes;
inline constexpr size_t kVerdictBytes = 1 + kDigestBytes;

/// The proof of one side. The role is part of it, so that nobody's proof can be sent back to him.
std::string proof_of(std::string_view role,
                     std::string_view secret,
                     std::string_view server_nonce,
                     std::string_view client_nonce);

/// The server's answer to what a client sent. `is_welcome`: the client knows the secret.
struct Verdict {
  bool is_welcome = false;
  std::string bytes;
};
Verdict judge(std::string_view client_bytes, std::string_view secret, std::string_view nonce);

/// The client's side. Throws if either side does not know the secret, or if no world is there;
/// `where` and `rank` name them.
void prove(const Socket& socket,
           std::string_view secret,
           const std::string& rank,
           const std::string& where,
           Deadline deadline);

}  // namespace reprise::dist
