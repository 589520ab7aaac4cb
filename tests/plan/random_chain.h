// Made-up costs: small random chains for brute force, and long ones of a real size.
#pragma once

#include "plan/cost/chain_costs.h"

#include <cstdint>
#include <random>

namespace reprise::planning::testing {

class RandomChain {
 public:
  explicit RandomChain(uint32_t seed) : random_(seed) {}

  int64_t number(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  bool coin() { return number(0, 1) == 1; }

  ChainCosts make(size_t blocks, size_t ops) {
    ChainCosts costs;
    const auto kinds = static_cast<size_t>(number(1, 3));
    for (size_t i = 0; i < kinds; ++i) {
      costs.kinds.push_back(block(ops));
    }
    for (size_t i = 0; i < blocks; ++i) {
      costs.blocks.push_back(static_cast<size_t>(number(0, static_cast<int64_t>(kinds) - 1)));
    }
    costs.head = {number(0, 40), number(0, 10), number(0, 10), number(0, 5)};
    costs.link = {1e9 * static_cast<double>(number(1, 8)) / 2,
                  1e9 * static_cast<double>(number(1, 8)) / 2};
    costs.base_bytes = number(0, 50);
    costs.link.page_bytes = number(1, 4);
    return costs;
  }

 private:
  BlockCosts block(size_t ops) {
    BlockCosts block;
    for (size_t i = 0; i < ops; ++i) {
      block.ops.push_back(op());
      block.replay_end = block.ops.back().needed ? i + 1 : block.replay_end;
    }
    if (coin()) {
      block.replay_end = ops;
    }
    block.stop = coin() ? ReplayStop::LastSaved : ReplayStop::LastMissing;
    block.forward_ns = number(0, 30);
    block.backward_ns = number(0, 60);
    block.region_ns = number(0, 2);
    block.input_bytes = number(0, 12);
    block.log_bytes = coin() ? 0 : number(0, 6);
    block.can_offload_input = coin();
    block.plain_bytes = number(0, 60);
    block.plain_forward_bytes = number(0, 80);
    block.plain_backward_bytes = number(0, 90);
    block.region_forward_bytes = number(0, 60);
    block.region_backward_bytes = number(0, 90);
    block.freed_early_bytes = coin() ? 0 : number(0, block.region_backward_bytes);
    block.gradient_bytes = number(0, 10);
    return block;
  }

  OpCosts op() {
    OpCosts op;
    op.result_bytes = number(0, 3) == 0 ? 0 : number(1, 20);
    op.forward_ns = number(0, 12);
    op.needed = number(0, 2) > 0;
    op.can_keep = number(0, 3) > 0;
    op.can_offload = coin();
    op.can_compress = coin();
    op.compresses_exactly = coin();
    op.compressed_bytes = number(0, op.result_bytes);
    op.compress_ns = number(0, 6);
    return op;
  }

  std::mt19937 random_;
};

/// 40 operators a block, numbers as of a transformer on a GPU.
inline ChainCosts transformer(size_t blocks, uint32_t seed) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  RandomChain random(seed);
  ChainCosts costs;
  for (int kind = 0; kind < 2; ++kind) {
    BlockCosts block;
    block.name = kind == 0 ? "attention" : "experts";
    for (size_t i = 0; i < 40; ++i) {
      OpCosts op;
      op.result_bytes = random.number(0, 3) == 0 ? 0 : random.number(1, 128) * kMiB / 2 + 512;
      op.forward_ns = random.number(5'000, 900'000);
      op.needed = op.result_bytes > 0 && random.number(0, 2) > 0;
      op.can_keep = op.can_offload = op.result_bytes > 0;
      op.can_compress = random.number(0, 9) == 0;
      op.compresses_exactly = true;
      op.compressed_bytes = op.result_bytes / 8;
      op.compress_ns = op.result_bytes / 1000;
      block.forward_ns += op.forward_ns;
      block.plain_bytes += op.needed ? op.result_bytes : 0;
      block.replay_end = op.needed ? i + 1 : block.replay_end;
      block.ops.push_back(op);
    }
    block.backward_ns = 2 * block.forward_ns;
    block.region_ns = 30'000;
    block.input_bytes = 64 * kMiB;
    block.can_offload_input = true;
    block.plain_bytes += block.input_bytes;
    block.plain_forward_bytes = block.plain_bytes + 200 * kMiB;
    block.plain_backward_bytes = block.plain_bytes + 300 * kMiB;
    block.region_forward_bytes = 500 * kMiB;
    block.region_backward_bytes = block.plain_bytes + 320 * kMiB;
    block.gradient_bytes = 100 * kMiB;
    costs.kinds.push_back(block);
  }
  for (size_t i = 0; i < blocks; ++i) {
    costs.blocks.push_back(i % 4 == 3 ? 1 : 0);
  }
  costs.head = {2048 * kMiB, 2'000'000, 4'000'000, 500 * kMiB};
  costs.link = {50e9, 50e9, 8 * kMiB};
  costs.base_bytes = 20'000 * kMiB;
  return costs;
}

}  // namespace reprise::planning::testing
