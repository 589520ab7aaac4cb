#include "dist/peer_proof.h"

#include "dist/handshake.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <string>
#include <vector>

namespace reprise::dist {

namespace {

constexpr int kNonceTag = 0;
constexpr int kProofTag = 1;

/// Sends a text to every other process and returns theirs, by rank. All have the same length.
std::vector<std::string> swapped(c10d::Backend& group, std::vector<std::string>& sent, int tag) {
  const int own = group.getRank();
  std::vector<std::string> received = sent;
  std::vector<c10::intrusive_ptr<c10d::Work>> messages;
  const auto tensor = [](std::string& text) {
    return std::vector<at::Tensor>{
        at::from_blob(text.data(), {static_cast<int64_t>(text.size())}, at::kByte)};
  };
  for (int rank = 0; rank < group.getSize(); ++rank) {
    if (rank != own) {
      const auto at = static_cast<size_t>(rank);
      auto out = tensor(sent[at]), in = tensor(received[at]);
      messages.push_back(group.recv(in, rank, tag));
      messages.push_back(group.send(out, rank, tag));
    }
  }
  for (const auto& message : messages) {
    message->wait();
  }
  return received;
}

std::string peer_proof(std::string_view secret,
                       int from,
                       int to,
                       std::string_view asked,
                       std::string_view asked_back) {
  return proof_of(c10::str("peer ", from, " to ", to), secret, asked, asked_back);
}

}  // namespace

void prove_to_peers(c10d::Backend& group, std::string_view secret) {
  const int own = group.getRank(), size = group.getSize();
  std::vector<std::string> nonces;
  for (int rank = 0; rank < size; ++rank) {
    nonces.push_back(random_bytes(kNonceBytes));
  }
  const auto asked = swapped(group, nonces, kNonceTag);
  std::vector<std::string> proofs;
  for (int rank = 0; rank < size; ++rank) {
    const auto at = static_cast<size_t>(rank);
    proofs.push_back(peer_proof(secret, own, rank, asked[at], nonces[at]));
  }
  const auto shown = swapped(group, proofs, kProofTag);
  for (int rank = 0; rank < size; ++rank) {
    const auto at = static_cast<size_t>(rank);
    TORCH_CHECK(rank == own || is_equal_secretly(
                                   shown[at], peer_proof(secret, rank, own, nonces[at], asked[at])),
                "a stranger, who does not know the secret of this world, has connected in the "
                "place of rank ",
                rank);
  }
}

}  // namespace reprise::dist
