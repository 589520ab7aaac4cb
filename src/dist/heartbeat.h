// The heartbeats that the processes of a world write to its store, and what they tell about a
// failure.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::dist {

struct Heartbeat {
  int64_t beats = 0;
  int64_t entered = 0;         ///< collectives begun so far
  std::string what = {};       ///< the last of them
  std::string failure = {};    ///< error that ended the process; empty if none
  bool is_cause_here = false;  ///< the error began in this process
  bool has_left = false;       ///< the process left the world
};

/// The store's keys of a process. All are set from the start, so that reading never blocks.
std::vector<std::string> heartbeat_keys(int64_t rank);
void write_heartbeat(c10d::Store& store, int64_t rank, const Heartbeat& heartbeat);
void write_beat(c10d::Store& store, int64_t rank, const Heartbeat& heartbeat);
void write_failure(c10d::Store& store, int64_t rank, const std::string& why, bool is_cause_here);
void write_departure(c10d::Store& store, int64_t rank);
std::vector<Heartbeat> read_heartbeats(c10d::Store& store, int64_t size);

/// Whether a process ended by an error of its own.
bool has_failure(const std::vector<Heartbeat>& heartbeats);

/// The heartbeats of all processes, by rank, at two moments.
struct HeartbeatHistory {
  std::vector<Heartbeat> first, last;

  /// Ranks other than `own` that have not left.
  std::vector<int64_t> present(int64_t own) const;
  /// Those of them whose heartbeat has not changed.
  std::vector<int64_t> silent(int64_t own) const;
  /// Why process `own` is stuck in that collective, as a sentence that names the ranks.
  std::string cause(int64_t own, int64_t number, const std::string& what) const;
};

}  // namespace reprise::dist
