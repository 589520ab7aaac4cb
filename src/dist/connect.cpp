// Connecting: find the store in rank 0, call the roll, then connect everyone to everyone.
#include <reprise/dist/connect.h>

#include "dist/groups.h"
#include "dist/join.h"
#include "dist/joined_world.h"
#include "dist/network.h"
#include "dist/patience.h"
#include "dist/watch.h"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <utility>

namespace reprise {

namespace dist {

namespace {

using namespace std::chrono_literals;

std::string where(const WorldPlace& place) {
  return c10::str(place.address, ":", place.port);
}

StorePointer with_prefix(const WorldPlace& place, StorePointer store) {
  return c10::make_intrusive<c10d::PrefixStore>("reprise/" + place.attempt.value_or("0"),
                                                std::move(store));
}

c10d::TCPStoreOptions store_options(const WorldPlace& place, std::chrono::milliseconds patience) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(place.port);
  options.timeout = patience;
  options.waitWorkers = false;
  return options;
}

/// The store that all connect to, in rank 0.
StorePointer serve(const WorldPlace& place, std::chrono::milliseconds patience) {
  auto options = store_options(place, patience);
  options.isServer = true;
  try {
    return with_prefix(place, c10::make_intrusive<c10d::TCPStore>(place.address, options));
  } catch (const c10::Error& error) {
    TORCH_CHECK(false,
                "[world] rank 0 cannot listen at ",
                where(place),
                ": another program uses port ",
                place.port,
                ", another process has RANK=0 too, or MASTER_ADDR is not this machine. Set "
                "MASTER_PORT to a free port. The system says: ",
                error.what_without_backtrace());
  }
}

StorePointer connect(const WorldPlace& place, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  // Asked often and silently; the store's own way asks once a second and warns each time.
  TORCH_CHECK(await_listener(place.address, place.port, deadline),
              "[world] rank ",
              place.rank,
              " of ",
              place.size,
              " found nobody at ",
              where(place),
              ", where rank 0 should listen. Is rank 0 running, and are MASTER_ADDR and "
              "MASTER_PORT the same for all and open in the firewall?");
  return with_prefix(
      place, c10::make_intrusive<c10d::TCPStore>(place.address, store_options(place, patience)));
}

void check_place(const WorldPlace& place, const WorldOptions& options) {
  TORCH_CHECK(0 <= place.rank && place.rank < place.size && 1 <= place.port &&
                  place.port <= 65535 && !place.address.empty(),
              "[world] expected a rank below the size, an address and a port, got rank ",
              place.rank,
              " of ",
              place.size,
              " at '",
              place.address,
              "' port ",
              place.port);
  TORCH_CHECK(options.timeout > 0ms, "[world] expected a timeout above 0");
}

std::unique_ptr<World> connect(const WorldPlace& place, const WorldOptions& options) {
  const bool has_store = place.rank == 0 && !place.attempt;
  const auto deadline = std::chrono::steady_clock::now() + options.timeout;
  const auto store = has_store ? serve(place, options.timeout) : connect(place, options.timeout);
  auto watch = std::make_unique<Watch>(
      [place](std::chrono::milliseconds patience) { return connect(place, patience); },
      place.rank,
      place.size,
      has_store);
  const auto address = join(*store, place, deadline);
  const auto part = [&](const char* name) {
    return GroupPlace{.store = c10::make_intrusive<c10d::PrefixStore>(name, store),
                      .rank = static_cast<int>(place.rank),
                      .size = static_cast<int>(place.size),
                      .timeout = options.timeout};
  };
  Group gloo, gpu;
  try {
    gloo = connect_gloo(part("gloo"), address);
    gpu = options.device.is_cuda() ? connect_gpu_group(part("nccl"), options.device) : Group();
  } catch (const std::exception& error) {
    const auto* own = dynamic_cast<const c10::Error*>(&error);
    TORCH_CHECK(false,
                "[world] rank ",
                place.rank,
                " of ",
                place.size,
                " at ",
                address,
                " could not connect to the others: ",
                own != nullptr ? own->what_without_backtrace() : error.what());
  }
  return std::make_unique<JoinedWorld>(
      place, store, std::move(watch), std::move(gloo), std::move(gpu));
}

}  // namespace

}  // namespace dist

std::unique_ptr<World> connect_world(const WorldPlace& place, const WorldOptions& options) {
  using namespace std::chrono_literals;
  dist::check_place(place, options);
  dist::check_gloo();
  if (options.device.is_cuda()) {
    dist::check_gpu_group();
  }
  auto world = dist::within<std::unique_ptr<World>>(
      options.timeout + 10s, [place, options] { return dist::connect(place, options); });
  TORCH_CHECK(world,
              "[world] rank ",
              place.rank,
              " of ",
              place.size,
              " could not join in time: rank 0 at ",
              dist::where(place),
              " listens, but does not answer. It is stopped, or another program");
  return std::move(*world);
}

void report_failure(const World& world, const std::string& message) {
  if (const auto* joined = dynamic_cast<const dist::JoinedWorld*>(&world)) {
    joined->report(message);
  }
}

}  // namespace reprise
