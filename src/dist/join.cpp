#include "dist/join.h"

#include "dist/network.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace reprise::dist {

namespace {

using namespace std::chrono_literals;

constexpr const char* kRefusal = "refusal";
constexpr const char* kJoined = "joined";
constexpr const char* kInformed = "informed";

std::string key(const char* kind, int64_t rank) {
  return c10::str(kind, "/", rank);
}

std::string read(c10d::Store& store, const std::string& name) {
  const auto bytes = store.get(name);
  return {bytes.begin(), bytes.end()};
}

/// Throws the refusal. Rank 0 hosts the store, so it first waits until all that joined have read
/// it.
[[noreturn]] void give_up(c10d::Store& store, const Rendezvous& rendezvous) {
  const auto message = read(store, kRefusal);
  store.add(kInformed, 1);
  const auto end = std::chrono::steady_clock::now() + 3s;
  while (rendezvous.rank == 0 && store.add(kInformed, 0) < store.add(kJoined, 0) &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(10ms);
  }
  TORCH_CHECK(false, "[world] ", message);
}

[[noreturn]] void refuse(c10d::Store& store,
                         const Rendezvous& rendezvous,
                         const std::string& message) {
  store.compareSet(kRefusal, std::string(), message);  // the first one wins
  give_up(store, rendezvous);
}

/// The ranks that have not joined: "2", or "1, 3".
std::string missing(c10d::Store& store, int64_t size) {
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < size; ++rank) {
    if (!store.check({key("present", rank)})) {
      ranks.push_back(rank);
    }
  }
  return c10::Join(", ", ranks);
}

void await_all(c10d::Store& store, const Rendezvous& rendezvous, Deadline deadline) {
  std::vector<std::string> all;
  for (int64_t rank = 0; rank < rendezvous.size; ++rank) {
    all.push_back(key("present", rank));
  }
  while (!store.check(all)) {
    if (store.check({kRefusal})) {
      give_up(store, rendezvous);
    }
    if (std::chrono::steady_clock::now() > deadline) {
      const auto ranks = missing(store, rendezvous.size);
      refuse(store,
             rendezvous,
             c10::str("these of the ",
                      rendezvous.size,
                      " processes did not join in time: rank ",
                      ranks,
                      ". Start them with the same MASTER_ADDR and MASTER_PORT, or wait longer"));
    }
    std::this_thread::sleep_for(10ms);
  }
}

/// The address at which other machines reach this process.
std::string own_address(c10d::Store& store, const Rendezvous& rendezvous, const std::string& own) {
  for (int64_t rank = 0; rank < rendezvous.size && (own.empty() || is_loopback(own)); ++rank) {
    // Rank 0's machine may resolve its own name to a loopback address only.
    const auto other = read(store, key("address", rank));
    if (!other.empty() && !is_loopback(other)) {
      return address_towards(other);
    }
  }
  return own;
}

}  // namespace

std::string join(c10d::Store& store, const Rendezvous& rendezvous, Deadline deadline) {
  store.add(kJoined, 1);
  const auto size = std::to_string(rendezvous.size);
  const auto expected = store.compareSet("size", std::string(), size);
  if (expected != size) {
    refuse(store,
           rendezvous,
           c10::str("rank ",
                    rendezvous.rank,
                    " expects a world of ",
                    size,
                    " processes, others one of ",
                    expected,
                    ". Start all with the same WORLD_SIZE"));
  }
  if (store.add(key("times", rendezvous.rank), 1) > 1) {
    refuse(store,
           rendezvous,
           c10::str("rank ",
                    rendezvous.rank,
                    " is used by two processes. Give each process its own RANK, and each job its "
                    "own MASTER_PORT"));
  }
  const auto machine = machine_id();
  const auto address = address_towards(rendezvous.address);
  store.set(key("machine", rendezvous.rank), machine);
  store.set(key("address", rendezvous.rank), address);
  store.set(key("present", rendezvous.rank), size);
  await_all(store, rendezvous, deadline);
  bool is_one_machine = true;
  for (int64_t rank = 0; rank < rendezvous.size; ++rank) {
    is_one_machine = is_one_machine && read(store, key("machine", rank)) == machine;
  }
  return is_one_machine ? "127.0.0.1" : own_address(store, rendezvous, address);
}

}  // namespace reprise::dist
