#include "dist/signs.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <functional>
#include <sstream>

namespace reprise::dist {

namespace {

std::string beat_text(const Sign& sign) {
  return c10::str(sign.beats, " ", sign.entered, " ", sign.what);
}

std::string text_of(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

/// "rank 2", or "ranks 1, 3".
std::string named(const std::vector<int64_t>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + c10::Join(", ", ranks);
}

std::string last_begun(const Sign& sign) {
  return sign.entered == 0
             ? std::string("last heard of before its first collective")
             : c10::str("last heard of in ", sign.what, ", collective ", sign.entered);
}

}  // namespace

std::vector<std::string> sign_keys(int64_t rank) {
  const auto folder = "sign/" + std::to_string(rank);
  return {folder + "/beat", folder + "/failure", folder + "/left"};
}

void write_beat(c10d::Store& store, int64_t rank, const Sign& sign) {
  store.set(sign_keys(rank)[0], beat_text(sign));
}

void write_failure(c10d::Store& store, int64_t rank, const std::string& why, bool is_cause_here) {
  store.set(sign_keys(rank)[1], (is_cause_here ? "!" : "?") + why);
}

void write_departure(c10d::Store& store, int64_t rank) {
  store.set(sign_keys(rank)[2], std::string("1"));
}

void write_sign(c10d::Store& store, int64_t rank, const Sign& sign) {
  write_beat(store, rank, sign);
  store.set(sign_keys(rank)[1], std::string("-"));
  store.set(sign_keys(rank)[2], std::string("-"));
}

std::vector<Sign> read_signs(c10d::Store& store, int64_t size) {
  std::vector<std::string> keys;
  for (int64_t rank = 0; rank < size; ++rank) {
    const auto own = sign_keys(rank);
    keys.insert(keys.end(), own.begin(), own.end());
  }
  const auto values = store.multiGet(keys);
  TORCH_INTERNAL_ASSERT(values.size() == keys.size());
  std::vector<Sign> signs(static_cast<size_t>(size));
  for (size_t i = 0; i < signs.size(); ++i) {
    auto& sign = signs[i];
    std::istringstream beat(text_of(values[3 * i]));
    beat >> sign.beats >> sign.entered >> std::ws;
    std::getline(beat, sign.what);
    const auto failure = text_of(values[3 * i + 1]);
    sign.failure = failure == "-" ? "" : failure.substr(1);
    sign.is_cause_here = failure.starts_with('!');
    sign.has_left = text_of(values[3 * i + 2]) == "1";
  }
  return signs;
}

bool has_failure(const std::vector<Sign>& signs) {
  return std::any_of(
      signs.begin(), signs.end(), [](const Sign& sign) { return sign.is_cause_here; });
}

std::vector<int64_t> SignHistory::staying(int64_t own) const {
  std::vector<int64_t> ranks;
  for (size_t i = 0; i < last.size(); ++i) {
    if (static_cast<int64_t>(i) != own && !last[i].has_left) {
      ranks.push_back(static_cast<int64_t>(i));
    }
  }
  return ranks;
}

std::vector<int64_t> SignHistory::silent(int64_t own) const {
  auto ranks = staying(own);
  std::erase_if(ranks, [this](int64_t rank) {
    const auto i = static_cast<size_t>(rank);
    return last[i].beats != first[i].beats;
  });
  return ranks;
}

std::string SignHistory::cause(int64_t own, int64_t number, const std::string& what) const {
  const auto who = [&](const std::function<bool(const Sign&)>& is_so) {
    std::vector<int64_t> ranks;
    for (size_t i = 0; i < last.size(); ++i) {
      if (static_cast<int64_t>(i) != own && is_so(last[i])) {
        ranks.push_back(static_cast<int64_t>(i));
      }
    }
    return ranks;
  };
  const auto sign_of = [&](int64_t rank) -> const Sign& { return last[static_cast<size_t>(rank)]; };
  // From what is surely the beginning to what may be its consequence.
  if (const auto ranks = who([](const Sign& sign) { return sign.is_cause_here; }); !ranks.empty()) {
    return c10::str(named({ranks.front()}), " failed: ", sign_of(ranks.front()).failure);
  }
  if (const auto ranks = silent(own); !ranks.empty()) {
    return c10::str(named(ranks),
                    ranks.size() == 1 ? " does" : " do",
                    " not respond: dead or stopped (",
                    last_begun(sign_of(ranks.front())),
                    ")");
  }
  if (const auto ranks = who([](const Sign& sign) { return !sign.failure.empty(); });
      !ranks.empty()) {
    return c10::str(named({ranks.front()}), " gave up: ", sign_of(ranks.front()).failure);
  }
  if (const auto ranks = who([&](const Sign& sign) { return sign.entered < number; });
      !ranks.empty()) {
    const auto& sign = sign_of(ranks.front());
    return c10::str(named(ranks),
                    sign.has_left ? " left the world before it (" : " did not come to it (",
                    last_begun(sign),
                    ")");
  }
  if (const auto ranks =
          who([&](const Sign& sign) { return sign.entered == number && sign.what != what; });
      !ranks.empty()) {
    return c10::str(named(ranks), " came to ", sign_of(ranks.front()).what, " instead");
  }
  return "all processes respond and have begun it: look at the network between them, or at sizes "
         "that differ";
}

}  // namespace reprise::dist
