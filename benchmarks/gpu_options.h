// The options of bench_gpu, and its modes: checkpointing settings by name.
#pragma once

#include "gpu_budget.h"

#include <reprise/model/block_checkpointing.h>
#include <reprise/model/model.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gpu {

struct Options {
  std::string shape = "1b";
  std::string device = "cuda:0";
  std::string dtype = "bfloat16";
  std::vector<std::string> modes{"none", "attention", "matmuls", "every2", "full_but_last", "full"};
  int64_t batch = 8;
  int64_t seq = 2048;
  std::vector<int64_t> lengths;  ///< increasing values for `seq`, until memory or time run out
  double seconds = 60;           ///< limit for a step of `lengths`
  int64_t steps = 7;
  int64_t warmup = 3;
  std::string profile;     ///< path prefix of a trace for each mode; empty: none
  double host_budget = 0;  ///< GiB that plans may offload to the host
  bool has_lora = false;
  bool has_optimizer = false;
  bool is_deterministic = false;
  bool is_recorded = false;  ///< as a CUDA graph
  bool is_json = false;
};

/// Regions in a CUDA graph cannot preserve the random state; these models use no random numbers.
inline void set_mode(reprise::Model& model, const std::string& mode, bool is_recorded) {
  if (mode == "none") {
    model.disable_checkpointing();
    return;
  }
  const std::string every = "every", but_last = "_but_last", offload = "_offload";
  auto blocks = reprise::BlockChoice::all();
  std::string policy = mode;
  if (mode.starts_with(kBudget)) {
    policy = "full";  // the plan decides about the regions
  } else if (mode.starts_with(every)) {
    blocks = reprise::BlockChoice::parse(every + ":" + mode.substr(every.size()));
    policy = "full";
  } else if (mode.ends_with(but_last)) {
    // Backward begins with the last block, so recomputing it saves no memory.
    blocks = reprise::BlockChoice::first(model.config().layers - 1);
    policy = mode.substr(0, mode.size() - but_last.size());
  } else if (mode.ends_with(offload)) {
    policy = mode.substr(0, mode.size() - offload.size());
  }
  auto options = reprise::checkpoint_options_named(policy);
  options.offload_inputs = mode.ends_with(offload);
  options.preserve_rng_state = !is_recorded;
  model.enable_checkpointing(blocks, options);
}

}  // namespace gpu
