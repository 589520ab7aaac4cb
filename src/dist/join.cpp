#include "dist/join.h"

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

/// The store is in rank 0, so it stays until all who came know why.
[[noreturn]] void give_up(c10d::Store& store, const WorldPlace& place) {
  const auto message = read(store, kRefusal);
  store.add(kInformed, 1);
  const auto end = std::chrono::steady_clock::now() + 3s;
  while (place.rank == 0 && store.add(kInformed, 0) < store.add(kJoined, 0) &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(10ms);
  }
  TORCH_CHECK(false, "[world] ", message);
}

[[noreturn]] void refuse(c10d::Store& store, const WorldPlace& place, const std::string& message) {
  store.compareSet(kRefusal, std::string(), message);  // the first counts
  give_up(store, place);
}

/// "2", or "1, 3": who did not come.
std::string missing(c10d::Store& store, int64_t size) {
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < size; ++rank) {
    if (!store.check({key("place", rank)})) {
      ranks.push_back(rank);
    }
  }
  return c10::Join(", ", ranks);
}

void await_all(c10d::Store& store, const WorldPlace& place, Deadline deadline) {
  std::vector<std::string> all;
  for (int64_t rank = 0; rank < place.size; ++rank) {
    all.push_back(key("place", rank));
  }
  while (!store.check(all)) {
    if (store.check({kRefusal})) {
      give_up(store, place);
    }
    if (std::chrono::steady_clock::now() > deadline) {
      const auto ranks = missing(store, place.size);
      refuse(store,
             place,
             c10::str("of ",
                      place.size,
                      " processes these did not come in time: rank ",
                      ranks,
                      ". Start them with the same MASTER_ADDR and MASTER_PORT, or wait longer"));
    }
    std::this_thread::sleep_for(10ms);
  }
}

/// How this process is reached from the other machines.
std::string own_address(c10d::Store& store, const WorldPlace& place, const std::string& own) {
  for (int64_t rank = 0; rank < place.size && (own.empty() || is_loopback(own)); ++rank) {
    // Rank 0's machine may know its own name as a loopback address only.
    const auto other = read(store, key("address", rank));
    if (!other.empty() && !is_loopback(other)) {
      return address_towards(other);
    }
  }
  return own;
}

}  // namespace

std::string join(c10d::Store& store, const WorldPlace& place, Deadline deadline) {
  store.add(kJoined, 1);
  const auto size = std::to_string(place.size);
  const auto expected = store.compareSet("size", std::string(), size);
  if (expected != size) {
    refuse(store,
           place,
           c10::str("rank ",
                    place.rank,
                    " expects a world of ",
                    size,
                    " processes, others one of ",
                    expected,
                    ". Start all with the same WORLD_SIZE"));
  }
  if (store.add(key("times", place.rank), 1) > 1) {
    refuse(store,
           place,
           c10::str("rank ",
                    place.rank,
                    " is there twice. Give each process a RANK of its own, and each job a "
                    "MASTER_PORT of its own"));
  }
  const auto machine = machine_id();
  const auto address = address_towards(place.address);
  store.set(key("machine", place.rank), machine);
  store.set(key("address", place.rank), address);
  store.set(key("place", place.rank), size);
  await_all(store, place, deadline);
  bool is_one_machine = true;
  for (int64_t rank = 0; rank < place.size; ++rank) {
    is_one_machine = is_one_machine && read(store, key("machine", rank)) == machine;
  }
  return is_one_machine ? "127.0.0.1" : own_address(store, place, address);
}

}  // namespace reprise::dist
