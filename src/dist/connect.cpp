// Connecting: find the store of rank 0, wait for all processes to join, then connect each pair.
#include <reprise/dist/connect.h>

#include "dist/deadline.h"
#include "dist/groups.h"
#include "dist/heartbeat_monitor.h"
#include "dist/join.h"
#include "dist/joined_world.h"
#include "dist/network.h"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <utility>

namespace reprise {

namespace dist {

namespace {

using namespace std::chrono_literals;

std::string where(const Rendezvous& rendezvous) {
  return c10::str(rendezvous.address, ":", rendezvous.port);
}

StorePointer with_prefix(const Rendezvous& rendezvous, StorePointer store) {
  return c10::make_intrusive<c10d::PrefixStore>("reprise/" + rendezvous.attempt.value_or("0"),
                                                std::move(store));
}

c10d::TCPStoreOptions store_options(const Rendezvous& rendezvous,
                                    std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(rendezvous.port);
  options.timeout = timeout;
  options.waitWorkers = false;
  return options;
}

/// Starts the store that all processes connect to, in rank 0.
StorePointer serve(const Rendezvous& rendezvous, std::chrono::milliseconds timeout) {
  auto options = store_options(rendezvous, timeout);
  options.isServer = true;
  try {
    return with_prefix(rendezvous,
                       c10::make_intrusive<c10d::TCPStore>(rendezvous.address, options));
  } catch (const c10::Error& error) {
    TORCH_CHECK(false,
                "[world] rank 0 cannot listen at ",
                where(rendezvous),
                ": another program uses port ",
                rendezvous.port,
                ", another process has RANK=0 too, or MASTER_ADDR is not this machine. Set "
                "MASTER_PORT to a free port. The system says: ",
                error.what_without_backtrace());
  }
}

StorePointer connect(const Rendezvous& rendezvous, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  // Polls often and silently. TCPStore itself would retry once a second, with a warning each time.
  TORCH_CHECK(await_listener(rendezvous.address, rendezvous.port, deadline),
              "[world] rank ",
              rendezvous.rank,
              " of ",
              rendezvous.size,
              " found nobody at ",
              where(rendezvous),
              ", where rank 0 should listen. Is rank 0 running, and are MASTER_ADDR and "
              "MASTER_PORT the same for all and open in the firewall?");
  return with_prefix(
      rendezvous,
      c10::make_intrusive<c10d::TCPStore>(rendezvous.address, store_options(rendezvous, timeout)));
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
}

std::unique_ptr<World> connect(const Rendezvous& rendezvous, const WorldOptions& options) {
  const bool has_store = rendezvous.rank == 0 && !rendezvous.attempt;
  const auto deadline = std::chrono::steady_clock::now() + options.timeout;
  const auto store =
      has_store ? serve(rendezvous, options.timeout) : connect(rendezvous, options.timeout);
  auto monitor = std::make_unique<HeartbeatMonitor>(
      [rendezvous](std::chrono::milliseconds timeout) { return connect(rendezvous, timeout); },
      rendezvous.rank,
      rendezvous.size,
      has_store);
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
    gpu = options.device.is_cuda() ? connect_gpu_group(group_options("nccl"), options.device)
                                   : Group();
  } catch (const std::exception& error) {
    const auto* own = dynamic_cast<const c10::Error*>(&error);
    TORCH_CHECK(false,
                "[world] rank ",
                rendezvous.rank,
                " of ",
                rendezvous.size,
                " at ",
                address,
                " could not connect to the others: ",
                own != nullptr ? own->what_without_backtrace() : error.what());
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
