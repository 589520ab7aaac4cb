// The signs of life of the processes of a world, as they are in its store, and what they tell.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::dist {

struct Sign {
  int64_t beats = 0;
  int64_t entered = 0;       ///< how many collectives it began
  std::string what = {};     ///< the last of them
  std::string failure = {};  ///< why it ends
  bool is_cause_here = false;
  bool has_left = false;
};

/// All keys of a process are there from the beginning, so that reading never waits for one.
std::vector<std::string> sign_keys(int64_t rank);
void write_sign(c10d::Store& store, int64_t rank, const Sign& sign);
void write_beat(c10d::Store& store, int64_t rank, const Sign& sign);
void write_failure(c10d::Store& store, int64_t rank, const std::string& why, bool is_cause_here);
void write_departure(c10d::Store& store, int64_t rank);
std::vector<Sign> read_signs(c10d::Store& store, int64_t size);

/// Somebody ended by an error of its own.
bool has_failure(const std::vector<Sign>& signs);

/// Two looks at the signs of all processes, by rank.
struct SignHistory {
  std::vector<Sign> first, last;

  /// Who has not left.
  std::vector<int64_t> staying(int64_t own) const;
  /// Who has neither left nor changed its sign.
  std::vector<int64_t> silent(int64_t own) const;
  /// Who is to blame that process `own` waits in that collective.
  std::string cause(int64_t own, int64_t number, const std::string& what) const;
};

}  // namespace reprise::dist
