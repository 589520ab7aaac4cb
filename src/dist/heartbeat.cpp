#include "dist/heartbeat.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <functional>
#include <sstream>

namespace reprise::dist {

namespace {

std::string beat_text(const Heartbeat& heartbeat) {
  return c10::str(heartbeat.beats, " ", heartbeat.entered, " ", heartbeat.what);
}

std::string text_of(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

/// "rank 2", or "ranks 1, 3".
std::string named(const std::vector<int64_t>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + c10::Join(", ", ranks);
}

std::string last_begun(const Heartbeat& heartbeat) {
  return heartbeat.entered == 0
             ? std::string("last heard of before its first collective")
             : c10::str("last heard of in ", heartbeat.what, ", collective ", heartbeat.entered);
}

}  // namespace

std::vector<std::string> heartbeat_keys(int64_t rank) {
  const auto folder = "heartbeat/" + std::to_string(rank);
  return {folder + "/beat", folder + "/failure", folder + "/left"};
}

void write_beat(c10d::Store& store, int64_t rank, const Heartbeat& heartbeat) {
  store.set(heartbeat_keys(rank)[0], beat_text(heartbeat));
}

void write_failure(c10d::Store& store, int64_t rank, const std::string& why, bool is_cause_here) {
  store.set(heartbeat_keys(rank)[1], (is_cause_here ? "!" : "?") + why);
}

void write_departure(c10d::Store& store, int64_t rank) {
  store.set(heartbeat_keys(rank)[2], std::string("1"));
}

void write_heartbeat(c10d::Store& store, int64_t rank, const Heartbeat& heartbeat) {
  write_beat(store, rank, heartbeat);
  store.set(heartbeat_keys(rank)[1], std::string("-"));
  store.set(heartbeat_keys(rank)[2], std::string("-"));
}

std::vector<Heartbeat> read_heartbeats(c10d::Store& store, int64_t size) {
  std::vector<std::string> keys;
  for (int64_t rank = 0; rank < size; ++rank) {
    const auto own = heartbeat_keys(rank);
    keys.insert(keys.end(), own.begin(), own.end());
  }
  const auto values = store.multiGet(keys);
  TORCH_INTERNAL_ASSERT(values.size() == keys.size());
  std::vector<Heartbeat> heartbeats(static_cast<size_t>(size));
  for (size_t i = 0; i < heartbeats.size(); ++i) {
    auto& heartbeat = heartbeats[i];
    std::istringstream beat(text_of(values[3 * i]));
    beat >> heartbeat.beats >> heartbeat.entered >> std::ws;
    std::getline(beat, heartbeat.what);
    const auto failure = text_of(values[3 * i + 1]);
    heartbeat.failure = failure == "-" ? "" : failure.substr(1);
    heartbeat.is_cause_here = failure.starts_with('!');
    heartbeat.has_left = text_of(values[3 * i + 2]) == "1";
  }
  return heartbeats;
}

bool has_failure(const std::vector<Heartbeat>& heartbeats) {
  return std::any_of(heartbeats.begin(), heartbeats.end(), [](const Heartbeat& heartbeat) {
    return heartbeat.is_cause_here;
  });
}

std::vector<int64_t> HeartbeatHistory::present(int64_t own) const {
  std::vector<int64_t> ranks;
  for (size_t i = 0; i < last.size(); ++i) {
    if (static_cast<int64_t>(i) != own && !last[i].has_left) {
      ranks.push_back(static_cast<int64_t>(i));
    }
  }
  return ranks;
}

std::vector<int64_t> HeartbeatHistory::silent(int64_t own) const {
  auto ranks = present(own);
  std::erase_if(ranks, [this](int64_t rank) {
    const auto i = static_cast<size_t>(rank);
    return last[i].beats != first[i].beats;
  });
  return ranks;
}

std::string HeartbeatHistory::cause(int64_t own, int64_t number, const std::string& what) const {
  const auto ranks_where = [&](const std::function<bool(const Heartbeat&)>& is_so) {
    std::vector<int64_t> ranks;
    for (size_t i = 0; i < last.size(); ++i) {
      if (static_cast<int64_t>(i) != own && is_so(last[i])) {
        ranks.push_back(static_cast<int64_t>(i));
      }
    }
    return ranks;
  };
  const auto heartbeat_of = [&](int64_t rank) -> const Heartbeat& {
    return last[static_cast<size_t>(rank)];
  };
  // From certain causes to what may be only their consequence.
  if (const auto ranks =
          ranks_where([](const Heartbeat& heartbeat) { return heartbeat.is_cause_here; });
      !ranks.empty()) {
    return c10::str(named({ranks.front()}), " failed: ", heartbeat_of(ranks.front()).failure);
  }
  if (const auto ranks = silent(own); !ranks.empty()) {
    return c10::str(named(ranks),
                    ranks.size() == 1 ? " does" : " do",
                    " not respond: dead or stopped (",
                    last_begun(heartbeat_of(ranks.front())),
                    ")");
  }
  if (const auto ranks =
          ranks_where([](const Heartbeat& heartbeat) { return !heartbeat.failure.empty(); });
      !ranks.empty()) {
    return c10::str(named({ranks.front()}), " gave up: ", heartbeat_of(ranks.front()).failure);
  }
  if (const auto ranks =
          ranks_where([&](const Heartbeat& heartbeat) { return heartbeat.entered < number; });
      !ranks.empty()) {
    const auto& heartbeat = heartbeat_of(ranks.front());
    return c10::str(named(ranks),
                    heartbeat.has_left ? " left the world before it (" : " did not reach it (",
                    last_begun(heartbeat),
                    ")");
  }
  if (const auto ranks = ranks_where([&](const Heartbeat& heartbeat) {
        return heartbeat.entered == number && heartbeat.what != what;
      });
      !ranks.empty()) {
    return c10::str(named(ranks), " entered ", heartbeat_of(ranks.front()).what, " instead");
  }
  return "all processes respond and have begun it: check the network between them, and whether "
         "their sizes differ";
}

}  // namespace reprise::dist
