// What a memory plan decides, as plain values that can be saved and loaded.
#pragma once

#include <reprise/policy.h>

#include <cstddef>
#include <string>
#include <vector>

namespace reprise {

/// What happens to the result of one operator call. Results without a decision are recomputed.
struct OpDecision {
  std::string name;           ///< "aten::mm"
  std::string overload = {};  ///< empty for the default overload
  size_t call_index = 0;      ///< see Note [Numbering of operator calls]
  Decision decision = Decision::Keep;

  bool operator==(const OpDecision&) const = default;
};

/// What one outermost region of a step does, alone or joined with the regions after it. Joined
/// regions run inside one outer region that holds only the inputs of the first; inside it, each is
/// plain or recomputes everything. Only code that runs regions as a chain, like a Model, can join
/// them.
struct RegionDecision {
  std::string name;             ///< CheckpointOptions::name of the region
  bool is_plain = false;        ///< run without checkpointing; then nothing else is decided
  bool offload_inputs = false;  ///< the inputs wait in host memory
  size_t joined = 0;            ///< number of regions after it that are joined with it
  bool allow_lossy = false;     ///< Decision::Compress may change values, and so gradients
  std::vector<OpDecision> ops = {};

  bool operator==(const RegionDecision&) const = default;
};

}  // namespace reprise
