// Checks of the solver's input, and the sums that its parts share.
#include "plan/cost/chain_costs.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <stdexcept>

namespace reprise::planning {
namespace {

void check(bool holds, const std::string& where, const char* what) {
  if (!holds) {
    throw std::invalid_argument("[plan] " + where + ": " + what);
  }
}

void check_not_negative(std::initializer_list<int64_t> values, const std::string& where) {
  check(std::all_of(values.begin(), values.end(), [](int64_t value) { return value >= 0; }),
        where,
        "expected bytes and times of at least 0, found a negative one");
}

void check_op(const BlockCosts& block, size_t index) {
  const auto& op = block.ops[index];
  const std::string where =
      "operator " + std::to_string(index) + " (" + op.name + ") of block \"" + block.name + "\"";
  check_not_negative({op.result_bytes, op.forward_ns, op.compressed_bytes, op.compress_ns}, where);
  check(!op.needed || index < block.replay_end,
        where,
        "its result is needed, so the recompute cannot stop before it: raise replay_end");
  check(!op.can_compress || op.compressed_bytes <= op.result_bytes,
        where,
        "expected the compressed form to be no larger than the result: say can_compress = false");
}

void check_block(const BlockCosts& block) {
  const std::string where = "block \"" + block.name + "\"";
  check_not_negative({block.forward_ns,
                      block.backward_ns,
                      block.region_ns,
                      block.input_bytes,
                      block.log_bytes,
                      block.plain_bytes,
                      block.plain_forward_bytes,
                      block.plain_backward_bytes,
                      block.region_forward_bytes,
                      block.region_backward_bytes,
                      block.freed_early_bytes,
                      block.gradient_bytes},
                     where);
  check(block.freed_early_bytes <= block.region_backward_bytes,
        where,
        "more is freed early than its backward takes");
  check(block.replay_end <= block.ops.size(), where, "replay_end is past the last operator");
  for (size_t i = 0; i < block.ops.size(); ++i) {
    check_op(block, i);
  }
}

int64_t copy_ns(int64_t bytes, double bytes_per_second) {
  return static_cast<int64_t>(std::ceil(static_cast<double>(bytes) / bytes_per_second * 1e9));
}

}  // namespace

void validate(const ChainCosts& costs) {
  check(!costs.blocks.empty(), "the chain", "expected at least one block, found none");
  for (size_t kind : costs.blocks) {
    check(kind < costs.kinds.size(), "the chain", "a block has a kind that does not exist");
  }
  check(costs.joinable.empty() || costs.joinable.size() == costs.blocks.size(),
        "the chain",
        "expected the number of blocks that can be joined for each block, or for none");
  bool offloads = false;
  for (const auto& block : costs.kinds) {
    check_block(block);
    offloads = offloads || block.can_offload_input ||
               std::any_of(block.ops.begin(), block.ops.end(), [](const OpCosts& op) {
                 return op.can_offload;
               });
  }
  check(!offloads || (costs.link.out_bytes_per_second > 0 && costs.link.in_bytes_per_second > 0),
        "the link",
        "something can be offloaded: expected the measured bytes per second, found 0");
  check(costs.link.page_bytes > 0, "the link", "expected pages of at least one byte");
  check_not_negative({costs.head.peak_bytes,
                      costs.head.forward_ns,
                      costs.head.backward_ns,
                      costs.head.gradient_bytes,
                      costs.base_bytes},
                     "the head and the base");
}

int64_t stall_ns(const ChainCosts& costs, size_t index, int64_t bytes) {
  if (bytes == 0) {
    return 0;
  }
  const bool is_last = index + 1 == costs.blocks.size();
  const int64_t forward_ns = is_last ? costs.head.forward_ns : costs.block(index + 1).forward_ns;
  const int64_t backward_ns = is_last ? costs.head.backward_ns : costs.block(index + 1).backward_ns;
  return std::max<int64_t>(0, copy_ns(bytes, costs.link.out_bytes_per_second) - forward_ns) +
         std::max<int64_t>(0, copy_ns(bytes, costs.link.in_bytes_per_second) - backward_ns);
}

int64_t full_replay_ns(const BlockCosts& block) {
  size_t end = block.replay_end;
  if (block.stop == ReplayStop::LastMissing) {
    while (end > 0 && !block.ops[end - 1].needed) {
      --end;
    }
  }
  int64_t sum = 0;
  for (size_t i = 0; i < end; ++i) {
    sum += block.ops[i].forward_ns;
  }
  return sum;
}

std::vector<int64_t> gradients_from(const ChainCosts& costs) {
  std::vector<int64_t> gradients(costs.blocks.size() + 1, costs.head.gradient_bytes);
  for (size_t i = costs.blocks.size(); i-- > 0;) {
    gradients[i] = gradients[i + 1] + costs.block(i).gradient_bytes;
  }
  return gradients;
}

}  // namespace reprise::planning
