// What a training step costs, in the numbers that the solver works with: no tensors.
//
// Bytes and nanoseconds are integers, so that sums do not depend on their order and equal plans
// compare equal. docs/planner.md, "The model", explains each number and what it leaves out.
#pragma once

#include <reprise/export.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise::planning {

/// What happens to one operator's result between forward and backward. The same values as
/// reprise::Decision, in its order, for code that does without LibTorch's headers.
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
  int64_t compress_ns = 0;  ///< compressing and restoring together
};

/// Where a recompute ends.
enum class ReplayStop : uint8_t {
  LastSaved,    ///< after the last saved tensor, held or not: what the engine does
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
  int64_t region_ns = 0;  ///< overhead of being a region, each step

  int64_t input_bytes = 0;  ///< held by a region under any policy
  int64_t log_bytes = 0;    ///< copies of written buffers: as its input, but never offloaded
  bool can_offload_input = false;
  int64_t plain_bytes = 0;  ///< held until backward if it is no region, including its input
  // Peaks on top of what earlier blocks hold, including the block's own input and results.
  int64_t plain_forward_bytes = 0;
  int64_t plain_backward_bytes = 0;
  int64_t region_forward_bytes = 0;   ///< if nothing is held
  int64_t region_backward_bytes = 0;  ///< every needed result, and the larger of the transients
                                      ///< of replay and of backward
  /// How much less a region takes in backward if it holds nothing: recomputed results are freed as
  /// backward uses them, held results are not.
  int64_t freed_early_bytes = 0;
  int64_t gradient_bytes = 0;  ///< of its parameters, made in its backward
};

/// Everything after the last block: final norm, head and loss, forward and backward.
struct HeadCosts {
  int64_t peak_bytes = 0;  ///< on top of what the blocks hold
  int64_t forward_ns = 0;
  int64_t backward_ns = 0;
  int64_t gradient_bytes = 0;
};

/// The link to host memory.
struct LinkCosts {
  double out_bytes_per_second = 0;
  double in_bytes_per_second = 0;
  int64_t page_bytes = 1;  ///< a unit takes whole pages of host memory

  int64_t in_pages(int64_t bytes) const {
    return (bytes + page_bytes - 1) / page_bytes * page_bytes;
  }
};

/// One training step: a chain of blocks, then the head, then backward.
struct ChainCosts {
  std::vector<BlockCosts> kinds;
  std::vector<size_t> blocks;  ///< for each block, its index in `kinds`
  /// For each block, how many of those after it can be in one outer region with it; empty: all.
  std::vector<size_t> joinable = {};
  HeadCosts head;
  LinkCosts link;
  int64_t base_bytes = 0;  ///< always allocated: weights, optimizer state, older gradients

  const BlockCosts& block(size_t index) const { return kinds[blocks[index]]; }
};

/// Throws std::invalid_argument for numbers that contradict each other.
REPRISE_API void validate(const ChainCosts& costs);

/// How long offloading `bytes` after block `index` delays the step. The copy out overlaps with the
/// next block's forward, the copy back with the next block's backward.
int64_t stall_ns(const ChainCosts& costs, size_t index, int64_t bytes);

/// Time of a block's recompute if nothing is held.
int64_t full_replay_ns(const BlockCosts& block);

/// By block: bytes of the gradients that exist in its backward, which are its own and those of all
/// blocks after it. The last element is the head's.
std::vector<int64_t> gradients_from(const ChainCosts& costs);

}  // namespace reprise::planning
