// Connecting: find the store of rank 0, wait for all processes to join, then connect
// each pair. Everybody proves that it knows the secret, to rank 0 and to each other.
#include <reprise/dist/connect.h>
#include <reprise/dist/error_text.h>

#include "dist/deadline.h"
#include "dist/groups.h"
#include "dist/heartbeat_monitor.h"
#include "dist/join.h"
#include "dist/joined_world.h"
#include "dist/network.h"
#include "dist/peer_proof.h"
#include "dist/store_client.h"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cstdlib>
#include <utility>

namespace reprise {

namespace dist {

namespace {

using namespace std::chrono_literals;

std::string who(const Rendezvous& rendezvous) {
  return c10::str("rank ", rendezvous.rank, " of ", rendezvous.size);
}

std::string where(const Rendezvous& rendezvous) {
  return c10::str(rendezvous.address, ":", rendezvous.port);
}

/// Listens for the others, in rank 0, at the given address and no other.
Socket listen(const Rendezvous& rendezvous, const std::string& address, int port) {
  Socket listener;
  try {
    listener = listen_at(address, port);
  } catch (const c10::Error& error) {
    TORCH_CHECK(false,
                "[world] rank 0 cannot listen at ",
                address,
                ":",
                port,
                ": another program uses port ",
                port,
                ", another process has RANK=0 too, or MASTER_ADDR is not this machine. Set "
                "MASTER_PORT to a free port. The system says: ",
                error.what_without_backtrace());
  }
  const auto own = listener.endpoint().address;
  const bool has_others = 0 < rendezvous.local_size && rendezvous.local_size < rendezvous.size;
  TORCH_CHECK(!has_others || !is_loopback(own),
              "[world] rank 0 would listen at ",
              address,
              ", which is ",
              own,
              " on its machine and cannot be reached from another. Set MASTER_ADDR to an address "
              "that other machines reach");
  return listener;
}

/// Where torchrun's agent listens, rank 0 cannot. It listens at a free port instead, which the
/// agent's store tells the others. Anybody may write to that store: who is not rank 0 has no proof.
StoreAddress meet_at_agent(const Rendezvous& rendezvous,
                           std::chrono::milliseconds timeout,
                           Socket& listener) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(rendezvous.port);
  options.timeout = timeout;
  options.waitWorkers = false;
  // Polls often and silently. TCPStore itself would retry once a second, with a warning each time.
  const bool is_there =
      connect_to(rendezvous.address, rendezvous.port, std::chrono::steady_clock::now() + timeout)
          .is_open();
  TORCH_CHECK(is_there, "[world] ", who(rendezvous), " found no torchrun at ", where(rendezvous));
  c10d::TCPStore agent(rendezvous.address, options);
  const auto key = "reprise/" + *rendezvous.attempt + "/store";
  if (rendezvous.rank == 0) {
    listener = listen(rendezvous, address_towards(rendezvous.address), 0);
    const auto own = listener.endpoint();
    static_cast<c10d::Store&>(agent).set(key, c10::str(own.port, " ", own.address));
  }
  const auto told = agent.get_to_str(key);
  StoreAddress address{.host = told.substr(told.find(' ') + 1), .port = std::atoi(told.c_str())};
  TORCH_CHECK(0 < address.port && address.port <= 65535,
              "[world] torchrun's store has no address of rank 0, but ",
              c10::str(told.size()),
              " other bytes");
  return address;
}

/// Starts the store in rank 0 and returns how a process connects to it.
OpenStore meet(const Rendezvous& rendezvous, std::chrono::milliseconds timeout) {
  if (rendezvous.size == 1) {  // nobody else: nothing listens
    return [alone = c10::make_intrusive<c10d::HashStore>()](auto) { return alone; };
  }
  Socket listener;
  StoreAddress address{.host = rendezvous.address, .port = rendezvous.port};
  if (rendezvous.attempt) {
    address = meet_at_agent(rendezvous, timeout, listener);
  } else if (rendezvous.rank == 0) {
    listener = listen(rendezvous, rendezvous.address, rendezvous.port);
  }
  address.secret = rendezvous.secret;
  address.who = who(rendezvous);
  std::shared_ptr<StoreServer> server;
  if (listener.is_open()) {
    server = std::make_shared<StoreServer>(std::move(listener), rendezvous.secret);
  }
  return [address, server](std::chrono::milliseconds longest) -> StorePointer {
    return c10::make_intrusive<StoreClient>(address, longest, server);
  };
}

void check_rendezvous(const Rendezvous& rendezvous, const WorldOptions& options) {
  TORCH_CHECK(0 <= rendezvous.rank && rendezvous.rank < rendezvous.size && 1 <= rendezvous.port &&
                  rendezvous.port <= 65535 && !rendezvous.address.empty(),
              "[world] expected a rank below the size, an address and a port, got rank ",
              rendezvous.rank,
              " of ",
              rendezvous.size,
              " at '",
              rendezvous.address,
              "' port ",
              rendezvous.port);
  TORCH_CHECK(options.timeout > 0ms, "[world] expected a timeout above 0");
  TORCH_CHECK(rendezvous.size == 1 || !rendezvous.secret.empty(),
              "[world] ",
              who(rendezvous),
              " has no secret to prove to the others that it belongs to them. `reprise launch` on "
              "one machine makes one; otherwise set REPRISE_WORLD_SECRET, or "
              "REPRISE_WORLD_SECRET_FILE, to the same for all processes: export "
              "REPRISE_WORLD_SECRET=$(head -c 32 /dev/urandom | base64)");
}

std::unique_ptr<World> connect(const Rendezvous& rendezvous, const WorldOptions& options) {
  const auto deadline = std::chrono::steady_clock::now() + options.timeout;
  const auto open = meet(rendezvous, options.timeout);
  const auto store = open(options.timeout);
  auto monitor = std::make_unique<HeartbeatMonitor>(
      open, rendezvous.rank, rendezvous.size, rendezvous.rank == 0);
  const auto address = join(*store, rendezvous, deadline);
  const auto group_options = [&](const char* name) {
    return GroupOptions{.store = c10::make_intrusive<c10d::PrefixStore>(name, store),
                        .rank = static_cast<int>(rendezvous.rank),
                        .size = static_cast<int>(rendezvous.size),
                        .timeout = options.timeout};
  };
  Group gloo, gpu;
  try {
    gloo = connect_gloo(group_options("gloo"), address);
    prove_to_peers(*gloo, rendezvous.secret);
    gpu = options.device.is_cuda() ? connect_gpu_group(group_options("nccl"), options.device)
                                   : Group();
  } catch (const std::exception& error) {
    TORCH_CHECK(false,
                "[world] rank ",
                rendezvous.rank,
                " of ",
                rendezvous.size,
                " at ",
                address,
                " could not connect to the others: ",
                error_text(error));
  }
  return std::make_unique<JoinedWorld>(
      rendezvous, store, std::move(monitor), std::move(gloo), std::move(gpu));
}

}  // namespace

}  // namespace dist

std::unique_ptr<World> connect_world(const Rendezvous& rendezvous, const WorldOptions& options) {
  using namespace std::chrono_literals;
  dist::check_rendezvous(rendezvous, options);
  dist::check_gloo();
  if (options.device.is_cuda()) {
    dist::check_gpu_group();
  }
  auto world = dist::run_with_deadline<std::unique_ptr<World>>(
      options.timeout + 10s, [rendezvous, options] { return dist::connect(rendezvous, options); });
  TORCH_CHECK(world,
              "[world] rank ",
              rendezvous.rank,
              " of ",
              rendezvous.size,
              " could not join in time: rank 0 at ",
              dist::where(rendezvous),
              " listens but does not answer. It is stopped, or another program uses the port");
  return std::move(*world);
}

void report_failure(const World& world, const std::string& message) {
  if (const auto* joined = dynamic_cast<const dist::JoinedWorld*>(&world)) {
    joined->report(message);
  }
}

}  // namespace reprise
