// The best plans for a small chain, by trying every one.
//
// Written from docs/planner.md alone: it shares no code with the solver but the costs' structs.
#pragma once

#include "plan/cost/chain_costs.h"
#include "plan/solve/chain_plan.h"
#include "plan/solve/solver_options.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

namespace reprise::planning::testing {

/// A whole plan, or a unit of one: `peak` is then what it needs with nothing held before it.
struct Tried {
  int64_t peak = 0, ns = 0, host = 0, held = 0;
  size_t blocks = 1;
};

class BruteForce {
 public:
  BruteForce(const ChainCosts& costs, const SolverOptions& options)
      : costs_(costs), options_(options), units_(costs.blocks.size()) {
    for (size_t i = 0; i < units_.size(); ++i) {
      list_blocks(i);
      list_segments(i);
    }
    try_all(0, 0, 0, 0, {});
    std::sort(all_.begin(), all_.end(), [](const Tried& a, const Tried& b) {
      return std::tie(a.peak, a.ns, a.host, a.held) < std::tie(b.peak, b.ns, b.host, b.held);
    });
  }

  /// The best at every peak that makes a difference.
  std::vector<Tried> curve(std::optional<int64_t> host_limit) const {
    std::vector<Tried> best;
    for (const auto& plan : all_) {
      const bool fits = !host_limit || plan.host <= *host_limit;
      if (fits &&
          (best.empty() || std::tie(plan.ns, plan.host, plan.held) <
                               std::tie(best.back().ns, best.back().host, best.back().held))) {
        best.push_back(plan);
      }
    }
    return best;
  }
  size_t tried() const { return all_.size(); }

 private:
  const BlockCosts& block(size_t i) const { return costs_.kinds[costs_.blocks[i]]; }

  int64_t gradients_from(size_t i) const {
    int64_t sum = costs_.head.gradient_bytes;
    for (; i < costs_.blocks.size(); ++i) {
      sum += block(i).gradient_bytes;
    }
    return sum;
  }

  int64_t in_pages(int64_t bytes) const {
    const int64_t page = costs_.link.page_bytes;
    return bytes % page == 0 ? bytes : (bytes / page + 1) * page;
  }

  int64_t stall(size_t last, int64_t bytes) const {
    const bool is_end = last + 1 == costs_.blocks.size();
    const int64_t forward = is_end ? costs_.head.forward_ns : block(last + 1).forward_ns;
    const int64_t backward = is_end ? costs_.head.backward_ns : block(last + 1).backward_ns;
    const auto copy = [bytes](double speed) {
      return static_cast<int64_t>(std::ceil(static_cast<double>(bytes) / speed * 1e9));
    };
    return std::max<int64_t>(0, copy(costs_.link.out_bytes_per_second) - forward) +
           std::max<int64_t>(0, copy(costs_.link.in_bytes_per_second) - backward);
  }

  void list_blocks(size_t i) {
    const auto& b = block(i);
    if (options_.allow_plain) {
      const int64_t need =
          std::max(b.plain_forward_bytes, b.plain_backward_bytes + gradients_from(i));
      units_[i].push_back({need, 0, 0, b.plain_bytes, 1});
    }
    size_t vectors = 1;
    for (size_t k = 0; k < b.ops.size(); ++k) {
      vectors *= 4;
    }
    for (size_t code = 0; code < vectors; ++code) {
      list_region(i, code, false);
      if (b.can_offload_input && options_.allow_offload) {
        list_region(i, code, true);
      }
    }
  }

  /// Decisions as digits of base four: keep, recompute, offload, compress.
  void list_region(size_t i, size_t code, bool offloads_input) {
    const auto& b = block(i);
    std::vector<size_t> digits;
    for (size_t k = 0; k < b.ops.size(); ++k, code /= 4) {
      digits.push_back(code % 4);
    }
    size_t end = b.replay_end;
    if (b.stop == ReplayStop::LastMissing) {
      end = 0;
      for (size_t k = 0; k < b.ops.size(); ++k) {
        end = b.ops[k].needed && digits[k] == 1 ? k + 1 : end;
      }
    }
    int64_t kept = 0, moved = 0, small = 0, surplus = 0, ns = b.region_ns;
    for (size_t k = 0; k < b.ops.size(); ++k) {
      const auto& op = b.ops[k];
      const bool may[] = {op.can_keep && options_.allow_keep,
                          true,
                          op.can_offload && options_.allow_offload,
                          op.can_compress && options_.allow_compress &&
                              (op.compresses_exactly || options_.allow_lossy)};
      if (!may[digits[k]]) {
        return;
      }
      kept += digits[k] == 0 ? op.result_bytes : 0;
      ns += digits[k] == 1 && k < end ? op.forward_ns : 0;
      moved += digits[k] == 2 ? op.result_bytes : 0;
      small += digits[k] == 3 ? op.compressed_bytes : 0;
      ns += digits[k] == 3 ? op.compress_ns : 0;
      surplus += (digits[k] == 0 || digits[k] == 2) && !op.needed ? op.result_bytes : 0;
    }
    surplus += small;
    const int64_t forward = std::min(b.region_forward_bytes + kept + small + moved,
                                     b.plain_forward_bytes + surplus + b.log_bytes);
    const int64_t backward =
        std::min(b.region_backward_bytes + surplus,
                 b.region_backward_bytes - b.freed_early_bytes + kept + small + moved) +
        gradients_from(i);
    const int64_t host = in_pages(moved + (offloads_input ? b.input_bytes : 0));
    const int64_t held = kept + small + b.log_bytes + (offloads_input ? 0 : b.input_bytes);
    units_[i].push_back({std::max(forward, backward), ns + stall(i, host), host, held, 1});
  }

  int64_t replay(size_t i) const {
    const auto& b = block(i);
    int64_t sum = 0, to_last_needed = 0;
    for (size_t k = 0; k < b.replay_end; ++k) {
      sum += b.ops[k].forward_ns;
      to_last_needed = b.ops[k].needed ? sum : to_last_needed;
    }
    return b.stop == ReplayStop::LastSaved ? sum : to_last_needed;
  }

  void list_segments(size_t first) {
    const size_t joinable = costs_.joinable.empty() ? costs_.blocks.size() : costs_.joinable[first];
    const size_t longest =
        std::min({options_.longest_segment, costs_.blocks.size() - first, joinable + 1});
    for (size_t s = 2; s <= longest; ++s) {
      const size_t last = first + s - 1;
      const int64_t x = block(first).input_bytes;
      int64_t need = 0, plain_ns = block(first).region_ns, region_ns = block(first).region_ns;
      int64_t plain_need = 0, region_need = 0, saved = x, inputs = 0;
      for (size_t j = first; j <= last; ++j) {
        const auto& b = block(j);
        need = std::max(need, b.region_forward_bytes + (j > first ? x : 0));
        plain_need = std::max({plain_need,
                               saved + b.plain_forward_bytes + gradients_from(last + 1),
                               saved + b.plain_backward_bytes + gradients_from(j)});
        region_need =
            std::max({region_need,
                      inputs + (j < last ? b.region_forward_bytes : 0) + gradients_from(last + 1),
                      inputs + b.region_backward_bytes + gradients_from(j)});
        saved += b.plain_bytes;
        inputs += b.input_bytes;
        plain_ns += j < last ? b.forward_ns : replay(j);
        region_ns += (j < last ? b.forward_ns : 0) + replay(j) + b.region_ns;
      }
      for (const auto& [inner, ns] : {std::pair(plain_need, plain_ns), {region_need, region_ns}}) {
        units_[first].push_back({std::max(need, inner), ns, 0, x, s});
        if (block(first).can_offload_input && options_.allow_offload) {
          const int64_t host = in_pages(x);
          units_[first].push_back({std::max(need, inner), ns + stall(last, host), host, 0, s});
        }
      }
    }
  }

  void try_all(size_t i, int64_t held, int64_t peak, int64_t flight, Tried sums) {
    if (i == costs_.blocks.size()) {
      peak = std::max(peak, held + costs_.head.peak_bytes + costs_.head.gradient_bytes);
      sums.peak = peak + flight + costs_.base_bytes;
      sums.held = held;
      all_.push_back(sums);
      return;
    }
    for (const auto& unit : units_[i]) {
      auto next = sums;
      next.ns += unit.ns;
      next.host += unit.host;
      try_all(i + unit.blocks,
              held + unit.held,
              std::max(peak, held + unit.peak),
              std::max(flight, unit.host),
              next);
    }
  }

  const ChainCosts& costs_;
  const SolverOptions& options_;
  std::vector<std::vector<Tried>> units_;
  std::vector<Tried> all_;
};

}  // namespace reprise::planning::testing
