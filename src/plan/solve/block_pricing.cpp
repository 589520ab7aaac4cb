// The numbers of one decision vector, directly from the definitions of the model.
#include "plan/solve/block_options.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace reprise::planning {
namespace {

bool is_allowed(const OpCosts& op, Choice choice) {
  switch (choice) {
    case Choice::Keep:
      return op.can_keep;
    case Choice::Recompute:
      return true;
    case Choice::Offload:
      return op.can_offload;
    case Choice::Compress:
      return op.can_compress;
  }
  return false;
}

/// The number of operators that a recompute runs.
size_t replay_end(const BlockCosts& block, const std::vector<Choice>& choices) {
  size_t end = block.replay_end;
  if (block.stop == ReplayStop::LastMissing) {
    while (end > 0 && !(block.ops[end - 1].needed && choices[end - 1] == Choice::Recompute)) {
      --end;
    }
  }
  return end;
}

}  // namespace

BlockOption price_plain(const BlockCosts& block) {
  BlockOption option;
  option.held_bytes = block.plain_bytes;
  option.forward_bytes = block.plain_forward_bytes;
  option.backward_bytes = block.plain_backward_bytes;
  return option;
}

BlockOption price(const BlockCosts& block, std::vector<Choice> choices, bool offloads_input) {
  if (choices.size() != block.ops.size() || (offloads_input && !block.can_offload_input)) {
    throw std::invalid_argument("[plan] block \"" + block.name +
                                "\": expected one decision for each operator, and offloads_input "
                                "only if the input can be offloaded");
  }
  const size_t end = replay_end(block, choices);
  int64_t held = 0, moved = 0, surplus = 0, ns = block.region_ns;
  for (size_t i = 0; i < choices.size(); ++i) {
    const auto& op = block.ops[i];
    if (!is_allowed(op, choices[i])) {
      throw std::invalid_argument("[plan] operator " + std::to_string(i) + " (" + op.name +
                                  ") of block \"" + block.name +
                                  "\" does not allow the decision about it");
    }
    switch (choices[i]) {
      case Choice::Keep:
        held += op.result_bytes;
        break;
      case Choice::Recompute:
        ns += i < end ? op.forward_ns : 0;
        break;
      case Choice::Offload:
        moved += op.result_bytes;
        break;
      case Choice::Compress:
        held += op.compressed_bytes;
        surplus += op.compressed_bytes;
        ns += op.compress_ns;
        break;
    }
    // Needed results are in the block's peak already; others come on top in backward.
    const bool is_whole = choices[i] == Choice::Keep || choices[i] == Choice::Offload;
    surplus += is_whole && !op.needed ? op.result_bytes : 0;
  }
  BlockOption option;
  option.is_region = true;
  option.offloads_input = offloads_input;
  option.choices = std::move(choices);
  option.held_bytes = held + block.log_bytes + (offloads_input ? 0 : block.input_bytes);
  option.moved_bytes = moved + (offloads_input ? block.input_bytes : 0);
  // The smaller of two upper bounds each. One: what is held comes on top of the region's
  // transients. The other: apart from the surplus, nothing is alive that would not be alive without
  // a region (forward, where the region's copies of buffers come on top) or with every needed
  // result held (backward).
  option.forward_bytes = std::min(block.region_forward_bytes + held + moved,
                                  block.plain_forward_bytes + surplus + block.log_bytes);
  option.backward_bytes =
      block.region_backward_bytes + std::min(surplus, held + moved - block.freed_early_bytes);
  option.extra_ns = ns;
  return option;
}

}  // namespace reprise::planning
