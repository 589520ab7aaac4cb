// What a memory plan decides, in plain values that can be written down and read back.
#pragma once

#include <reprise/policy.h>

#include <cstddef>
#include <string>
#include <vector>

namespace reprise {

/// What becomes of the result of one operator call; what is not named is computed again.
struct OpDecision {
  std::string name;           ///< "aten::mm"
  std::string overload = {};  ///< empty for the default overload
  size_t call_index = 0;      ///< as policies count: Note [Numbering of operator calls]
  Decision decision = Decision::Keep;

  bool operator==(const OpDecision&) const = default;
};

/// What one outermost region of a step does, alone or joined with the regions after it. Joined ones
/// run inside one outer region that holds the first one's inputs alone; there each is plain or
/// computes everything again. Only code that runs regions in a chain can join them: a Model does.
struct RegionDecision {
  std::string name;             ///< CheckpointOptions::name of the region that it is for
  bool is_plain = false;        ///< run as if it were no region; nothing else is decided then
  bool offload_inputs = false;  ///< its inputs wait in host memory
  size_t joined = 0;            ///< regions after it that are joined with it
  bool allow_lossy = false;     ///< Decision::Compress may change values: gradients are others then
  std::vector<OpDecision> ops = {};

  bool operator==(const RegionDecision&) const = default;
};

}  // namespace reprise
