// What a training step costs, as the planner sees it: plain numbers, no tensors.
//
// Bytes and nanoseconds are integers, so that sums do not depend on their order and equal plans
// compare equal. docs/planner.md, "The model", says what each number means and what it leaves out.
#pragma once

#include <reprise/export.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise::planning {

/// What happens to one operator's result between forward and backward. In the order of
/// reprise::Decision, which this stands for where LibTorch's headers are not wanted.
enum class Choice : uint8_t { Keep, Recompute, Offload, Compress };

/// One operator call of a block, in the order of forward.
struct OpCosts {
  std::string name;
  int64_t result_bytes = 0;  ///< 0 for views
  int64_t forward_ns = 0;
  bool needed = false;  ///< autograd saves the result, or something that shares its storage
  bool can_keep = false;
  bool can_offload = false;
  bool can_compress = false;
  bool compresses_exactly = false;
  int64_t compressed_bytes = 0;
  int64_t compress_ns = 0;  ///< both ways together
};

/// Where a recompute ends.
enum class ReplayStop : uint8_t {
  LastSaved,    ///< once all saved tensors have passed, held or not: what the engine does
  LastMissing,  ///< after the last needed result that is not held
};

/// One kind of block. Most models have one or two.
struct BlockCosts {
  std::string name;
  std::vector<OpCosts> ops;
  /// Operators before this one run again in a recompute that stops at the last saved tensor; no
  /// result from here on is needed.
  size_t replay_end = 0;
  ReplayStop stop = ReplayStop::LastSaved;
  int64_t forward_ns = 0;
  int64_t backward_ns = 0;
  int64_t region_ns = 0;  ///< what being a region costs by itself, each step

  int64_t input_bytes = 0;  ///< what a region holds whatever its policy
  bool can_offload_input = false;
  int64_t plain_bytes = 0;  ///< held until backward when it is no region, its input included
  // Peaks on top of what earlier blocks hold, the block's own input and results included.
  int64_t plain_forward_bytes = 0;
  int64_t plain_backward_bytes = 0;
  int64_t region_forward_bytes = 0;   ///< nothing held
  int64_t region_backward_bytes = 0;  ///< every needed result, and the larger of the transients
                                      ///< of replay and of backward
  /// How much less than that a region that holds nothing takes: what is made again dies as backward
  /// uses it up, what is held does not.
  int64_t freed_early_bytes = 0;
  int64_t gradient_bytes = 0;  ///< of its parameters; come into being in its backward
};

/// What follows the last block: final norm, head and loss, forward and backward.
struct HeadCosts {
  int64_t peak_bytes = 0;  ///< on top of what the blocks hold
  int64_t forward_ns = 0;
  int64_t backward_ns = 0;
  int64_t gradient_bytes = 0;
};

/// The way to host memory and back.
struct LinkCosts {
  double out_bytes_per_second = 0;
  double in_bytes_per_second = 0;
  int64_t page_bytes = 1;  ///< what a unit moves takes whole pages of host memory

  int64_t in_pages(int64_t bytes) const {
    return (bytes + page_bytes - 1) / page_bytes * page_bytes;
  }
};

/// One training step: a chain of blocks, then the head, then backward.
struct ChainCosts {
  std::vector<BlockCosts> kinds;
  std::vector<size_t> blocks;  ///< for each block its index in `kinds`
  /// For each block how many after it can be in one outer region with it; empty: all.
  std::vector<size_t> joinable = {};
  HeadCosts head;
  LinkCosts link;
  int64_t base_bytes = 0;  ///< there all the time: weights, optimizer state, older gradients

  const BlockCosts& block(size_t index) const { return kinds[blocks[index]]; }
};

/// Throws std::invalid_argument for numbers that contradict each other.
REPRISE_API void validate(const ChainCosts& costs);

/// How long an offload of `bytes` after block `index` delays the step: its copy has the next
/// block's forward to go out and the next block's backward to come back.
int64_t stall_ns(const ChainCosts& costs, size_t index, int64_t bytes);

/// Running a block again up to where its recompute stops, with nothing held.
int64_t full_replay_ns(const BlockCosts& block);

/// Gradients that exist while block `index` is in its backward: its own and those of all after it.
std::vector<int64_t> gradients_from(const ChainCosts& costs);

}  // namespace reprise::planning
