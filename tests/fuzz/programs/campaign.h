// Many programs: runs them, counts what came of them, and shrinks and prints those that fail.
#pragma once

#include "fuzz/programs/generate.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace reprise::fuzz {

struct CampaignOptions {
  uint64_t seed = 1;
  uint64_t programs = 1000;
  double seconds = 0;    ///< stop after that many; 0: no limit
  int jobs = 1;          ///< processes
  uint64_t repeats = 1;  ///< run each program so often, to find what depends on time
  bool is_verbose = false;
  bool shows_refused = false;  ///< print the smallest program of each kind that was refused
  size_t most_failures = 3;    ///< stop after that many different ones
  GenerateOptions generate = {};
};

/// Of all programs that run without regions, at most this share may be refused.
inline constexpr double kMostRefused = 0.12;

struct Summary {
  uint64_t programs = 0;
  uint64_t equal = 0;
  uint64_t refused = 0;
  uint64_t different = 0;
  uint64_t invalid = 0;
  std::map<std::string, uint64_t> refused_kinds;
  std::map<std::string, uint64_t> invalid_kinds;
  double seconds = 0;

  void add(const Summary& other);
  double refused_share() const;
  bool is_success() const;
  std::string text() const;
};

/// Runs the programs of the seeds seed, seed + 1, … in this process. Writes findings to standard
/// output.
Summary run_campaign(const CampaignOptions& options);

/// The same, in `jobs` processes. False if one of them crashed.
bool run_in_processes(const CampaignOptions& options, Summary& summary);

/// From now on, a signal that ends the process first names the seed of the program that was
/// running.
void name_seed_on_signals();

}  // namespace reprise::fuzz
