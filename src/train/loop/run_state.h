// The state of a run that is not tensors, as trainer_state.json and logs.json in a checkpoint.
#pragma once

#include <reprise/io/json.h>
#include <reprise/report/metrics_file.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace reprise {

// Apart from the state and its checksums, which are the same whenever a run is repeated. Logs have
// times in them.
inline constexpr const char* kLogsFile = "logs.json";

/// Counters of a run: everything that changes from step to step and is not a tensor.
struct RunState {
  int64_t step = 0;    ///< optimizer steps done
  int64_t tokens = 0;  ///< tokens seen so far, by all processes
  std::optional<double> best_value;
  int64_t best_step = 0;
  int64_t evaluations_without_best = 0;
  std::map<std::string, MetricsMark> logs;  ///< by file name, how far each was written
};

/// What trainer_state.json has of it, and logs.json.
Json state_json(const RunState& state, const Json& configuration, int64_t world_size);
Json logs_json(const RunState& state);

/// The state in a checkpoint. Throws, naming file and field, if it is damaged or contradicts
/// itself.
RunState read_run_state(const std::filesystem::path& folder);

}  // namespace reprise
