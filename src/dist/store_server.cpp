#include "dist/store_server.h"

#include "dist/handshake.h"
#include "dist/store_requests.h"

#include <c10/util/Exception.h>

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace reprise::dist {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kProofTime = 10s;
/// Strangers who connect and say nothing do not take the descriptors of this process.
constexpr size_t kMostUnproved = 128;

}  // namespace

StoreServer::StoreServer(Socket listener, std::string secret)
    : listener_(std::move(listener)),
      secret_(std::move(secret)),
      values_(c10::make_intrusive<c10d::HashStore>()) {
  std::array<int, 2> ends{};
  TORCH_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0,
              "[world] no socket for the store: ",
              std::strerror(errno));
  stop_reader_ = Socket(ends[0]);
  stop_writer_ = Socket(ends[1]);
  thread_ = std::thread([this] { serve(); });
}

StoreServer::~StoreServer() {
  stop_writer_.close();
  thread_.join();
}

void StoreServer::serve() {
  while (true) {
    const bool accepts = Clock::now() >= accepts_from_;
    std::vector<pollfd> polled{{stop_reader_.handle(), POLLIN, 0},
                               {accepts ? listener_.handle() : -1, POLLIN, 0}};
    for (const auto& each : connections_) {
      polled.push_back({each.socket.handle(),
                        static_cast<short>(each.out.empty() ? POLLIN : POLLIN | POLLOUT),
                        0});
    }
    ::poll(polled.data(), polled.size(), 500);
    if (polled[0].revents != 0) {
      return;
    }
    size_t i = 2;
    for (auto each = connections_.begin(); each != connections_.end(); ++i) {
      const bool is_late = !each->is_proved && Clock::now() > each->proof_until;
      const bool stays = !is_late && (polled[i].revents == 0 || (read(*each) && write(*each)));
      each = stays ? std::next(each) : connections_.erase(each);
    }
    if (polled[1].revents != 0) {
      accept_all();
    }
  }
}

void StoreServer::accept_all() {
  while (auto socket = accept_from(listener_)) {
    auto nonce = random_bytes(kNonceBytes);
    auto& added = connections_.emplace_back(Connection{
        .socket = std::move(socket), .nonce = nonce, .proof_until = Clock::now() + kProofTime});
    added.out = std::string(kMagic) + nonce;
    write(added);
    const auto is_unproved = [](const Connection& each) { return !each.is_proved; };
    if (std::count_if(connections_.begin(), connections_.end(), is_unproved) >
        static_cast<std::ptrdiff_t>(kMostUnproved)) {
      connections_.erase(std::find_if(connections_.begin(), connections_.end(), is_unproved));
    }
  }
  if (errno == EMFILE || errno == ENFILE) {
    accepts_from_ = Clock::now() + 100ms;  // else poll() would return at once, again and again
  }
}

bool StoreServer::read(Connection& connection) {
  std::array<char, 65536> bytes{};
  // A stranger's bytes beyond a proof stay in the kernel.
  const size_t room =
      connection.is_proved ? bytes.size() : kClientProofBytes - connection.in.size();
  const ssize_t count = ::recv(connection.socket.handle(), bytes.data(), room, 0);
  if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
    return false;
  }
  if (connection.is_ending) {
    return true;
  }
  connection.in.append(bytes.data(), static_cast<size_t>(std::max<ssize_t>(count, 0)));
  return connection.is_proved ? take_requests(*values_, connection.in, connection.out)
                              : take_proof(connection);
}

bool StoreServer::take_proof(Connection& connection) const {
  if (connection.in.size() < kClientProofBytes) {
    return true;
  }
  auto verdict = judge(connection.in, secret_, connection.nonce);
  connection.in.clear();
  connection.is_proved = verdict.is_welcome;
  connection.is_ending = !verdict.is_welcome;
  connection.out += verdict.bytes;
  return true;
}

bool StoreServer::write(Connection& connection) const {
  while (!connection.out.empty()) {
    const ssize_t count = ::send(
        connection.socket.handle(), connection.out.data(), connection.out.size(), MSG_NOSIGNAL);
    if (count < 0) {
      return errno == EAGAIN || errno == EINTR;
    }
    connection.out.erase(0, static_cast<size_t>(count));
  }
  return !connection.is_ending;
}

}  // namespace reprise::dist
