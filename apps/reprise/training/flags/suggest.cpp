#include "reprise/training/flags/suggest.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace reprise::app {

namespace {

// Levenshtein distance, computed row by row. It is no less than the least of any row, so that it is
// not computed to its end where it reaches `limit`.
size_t edit_distance(const std::string& from, const std::string& to, size_t limit) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < from.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1), least = row[0];
    for (size_t j = 0; j < to.size(); ++j) {
      const size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min(std::min(row[j], row[j + 1]) + 1, replaced);
      least = std::min(least, row[j + 1]);
    }
    if (least >= limit) {
      return limit;
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(const std::string& name, const std::vector<std::string>& candidates) {
  constexpr size_t kLongestName = 100;  // anything longer is not a typo, and slow to compare
  if (name.empty() || name.size() > kLongestName) {
    return "";
  }
  std::string best;
  size_t best_distance = std::max<size_t>(name.size() / 3, 1) + 1;
  for (const std::string& candidate : candidates) {
    const auto [shorter, longer] = std::minmax({name.size(), candidate.size()});
    if (longer - shorter >= best_distance) {
      continue;  // the distance is not less than that of the lengths
    }
    const size_t distance = edit_distance(name, candidate, best_distance);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(const std::string& name) {
  return name.empty() ? "" : "; did you mean " + name + "?";
}

std::string suggest_flag(const std::vector<std::string>& flags, const std::string& unknown) {
  std::string wanted = unknown.substr(std::min(unknown.find_first_not_of('-'), unknown.size()));
  std::replace(wanted.begin(), wanted.end(), '-', '_');
  const std::string found = nearest(wanted, flags);
  return found.empty() ? "" : "did you mean --" + found + "?";
}

std::string suggest_flag(const CLI::App& command, const std::string& unknown) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    const auto& own = option->get_lnames();
    names.insert(names.end(), own.begin(), own.end());
  }
  return suggest_flag(names, unknown);
}

}  // namespace reprise::app
