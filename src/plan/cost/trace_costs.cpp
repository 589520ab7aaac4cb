#include "plan/cost/trace_costs.h"

#include "plan/cost/decided_trace.h"
#include "plan/cost/trace_peaks.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace reprise::planning {

namespace {

int64_t nanoseconds(double ms) {
  constexpr double kNanoseconds = 1e6;
  return std::llround(std::max(ms, 0.0) * kNanoseconds);
}

// Keeping the result of an operator that a recompute does not run gains nothing.
bool is_worth_keeping(const TracedOp& op) {
  return op.can_keep && op.is_rerun && op.bytes > 0 && op.call_index != kNone;
}

RegionDecision keeping(const TracedRegion& region, const std::vector<size_t>& ops) {
  RegionDecision decision{.name = region.name};
  for (const size_t i : ops) {
    const TracedOp& op = region.ops[i];
    decision.ops.push_back({.name = op.name, .overload = op.overload, .call_index = op.call_index});
  }
  return decision;
}

enum class Which : uint8_t { All, Saved };

std::vector<size_t> all_worth_keeping(const TracedRegion& region, Which which = Which::All) {
  std::vector<size_t> ops;
  for (size_t i = 0; i < region.ops.size(); ++i) {
    if (is_worth_keeping(region.ops[i]) && (which == Which::All || region.ops[i].is_saved)) {
      ops.push_back(i);
    }
  }
  return ops;
}

/// What each region holds under any decision beside its copies of buffers: the growth of the bytes
/// alive from one region's start to the next.
std::vector<int64_t> inputs_of(const StepTrace& trace) {
  std::vector<int64_t> inputs;
  for (size_t i = 0; i < trace.regions.size(); ++i) {
    const TracedRegion& region = trace.regions[i];
    if (i == 0) {
      inputs.push_back(region.input_bytes);
      continue;
    }
    const TracedRegion& before = trace.regions[i - 1];
    inputs.push_back(
        std::max<int64_t>(region.entry_bytes - before.entry_bytes - before.log_bytes, 0));
  }
  return inputs;
}

/// The storages of each operator, and whether they can be offloaded.
class Storages {
 public:
  explicit Storages(const StepTrace& trace)
      : regions_(traced_decisions(trace, offloading(trace))), step_(trace, regions_) {
    for (const auto& storage : trace.storages) {
      by_op_[{storage.region, storage.op}].push_back(&storage);
    }
  }

  const std::vector<const TracedStorage*>& of(size_t region, size_t op) const {
    static const std::vector<const TracedStorage*> kNothing;
    const auto found = by_op_.find({region, op});
    return found == by_op_.end() ? kNothing : found->second;
  }
  bool can_move(size_t region, size_t op) const {
    const auto& storages = of(region, op);
    return std::any_of(storages.begin(), storages.end(), [this](const TracedStorage* storage) {
      return step_.fate(*storage) == Fate::Offloaded;
    });
  }

 private:
  static std::vector<RegionDecision> offloading(const StepTrace& trace) {
    std::vector<RegionDecision> decisions;
    for (const auto& region : trace.regions) {
      decisions.push_back(keeping(region, all_worth_keeping(region)));
      for (auto& op : decisions.back().ops) {
        op.decision = Decision::Offload;
      }
    }
    return decisions;
  }

  const std::vector<TracedDecision> regions_;
  const DecidedTrace step_;
  std::map<std::pair<size_t, size_t>, std::vector<const TracedStorage*>> by_op_;
};

/// The compressed form of an operator's results. Results without one stay as they are.
void price_compression(OpCosts& op,
                       const std::vector<const TracedStorage*>& storages,
                       const PlannerOptions& options) {
  op.compresses_exactly = true;
  bool has_form = false;
  for (const auto* storage : storages) {
    const auto& form = storage->compressed;
    if (form.bytes == 0 || !(form.is_exact || options.allow_lossy)) {
      op.compressed_bytes += storage->bytes;
      continue;
    }
    has_form = true;
    op.compresses_exactly = op.compresses_exactly && form.is_exact;
    op.compressed_bytes += form.bytes;
    op.compress_ns +=
        (form.is_exact ? options.speeds->masks : options.speeds->floating).of(storage->bytes);
  }
  op.can_compress = op.can_keep && has_form && op.compressed_bytes < op.result_bytes;
}

bool can_offload_input(const TracedRegion& region) {
  return region.is_recomputed &&
         std::any_of(region.inputs.begin(), region.inputs.end(), [](const TracedInput& input) {
           return input.host_bytes > 0 && input.is_private;
         });
}

BlockCosts block_costs(const StepTrace& trace,
                       const Storages& storages,
                       size_t index,
                       int64_t input,
                       const PlannerOptions& options) {
  const TracedRegion& region = trace.regions[index];
  const auto peaks = [&](const RegionDecision& decision) {
    return region_peaks(trace, index, decision);
  };
  const auto full = peaks({.name = region.name});
  const auto plain = peaks({.name = region.name, .is_plain = true});
  const auto saved = peaks(keeping(region, all_worth_keeping(region, Which::Saved)));
  const bool offloads = options.host_bytes > 0;

  BlockCosts block;
  block.name = region.name;
  block.replay_end = region.rerun_ops;
  double rerun_ms = 0;
  for (size_t i = 0; i < region.ops.size(); ++i) {
    const TracedOp& op = region.ops[i];
    const bool is_worth = is_worth_keeping(op);
    // What holding this result alone takes: nothing if the region returns it.
    const int64_t held = is_worth ? region_held(trace, index, keeping(region, {i})) : op.bytes;
    // Keeping such a result would prevent the next region from offloading it as its input.
    const bool can_keep = is_worth && !(offloads && held == 0);
    rerun_ms += op.is_rerun ? op.forward_ms : 0;
    OpCosts costs{.name = op.name,
                  .result_bytes = held,
                  .forward_ns = nanoseconds(op.forward_ms),
                  .needed = op.is_saved && i < region.rerun_ops,
                  .can_keep = can_keep,
                  .can_offload = offloads && can_keep && storages.can_move(index, i)};
    price_compression(costs, storages.of(index, i), options);
    block.ops.push_back(std::move(costs));
  }
  block.forward_ns = nanoseconds(region.forward_ms);
  block.backward_ns = nanoseconds(region.backward_ms);
  block.region_ns = nanoseconds(region.recompute_ms - rerun_ms);
  block.input_bytes = input;
  block.can_offload_input = offloads && input > 0 && can_offload_input(region);
  block.log_bytes = region.log_bytes;
  block.plain_bytes = input + region.log_bytes + plain.held;
  block.plain_forward_bytes = input + plain.forward;
  block.plain_backward_bytes = input + plain.backward;
  block.region_forward_bytes = input + full.forward;
  block.region_backward_bytes = input + std::max(full.backward, saved.backward);
  block.freed_early_bytes = std::max<int64_t>(saved.backward - full.backward, 0);
  return block;
}

/// By region, with the head as the last element: what gradients add to the peak of its backward.
/// Gradients made when most activations are gone (an embedding's, after the first region's
/// backward) add less than their bytes.
std::vector<int64_t> gradients_of(const StepTrace& trace) {
  const size_t count = trace.regions.size();
  std::vector<RegionDecision> full, plain, most;
  for (const auto& region : trace.regions) {
    full.push_back({.name = region.name});
    plain.push_back({.name = region.name, .is_plain = true});
    most.push_back(keeping(region, all_worth_keeping(region)));
  }
  std::vector<int64_t> added(count + 1);
  for (const auto& decisions : {full, plain, most}) {
    const auto without = predict_peaks(trace, decisions);
    const auto with = predict_peaks(trace, decisions, Counted::WithGradients);
    for (size_t i = 0; i < count; ++i) {
      added[i] = std::max(added[i],
                          std::max(with.recompute[i], with.backward[i]) -
                              std::max(without.recompute[i], without.backward[i]));
    }
    added[count] = std::max(added[count], with.head - without.head);
  }
  for (size_t i = count; i-- > 0;) {
    added[i] = std::max(added[i], added[i + 1]);
  }
  return added;
}

}  // namespace

ChainCosts costs_of(const StepTrace& trace, const PlannerOptions& options) {
  const auto inputs = inputs_of(trace);
  const size_t count = trace.regions.size();
  const auto gradients =
      options.counts_gradients ? gradients_of(trace) : std::vector<int64_t>(count + 1);
  const Storages storages(trace);
  ChainCosts costs;
  std::map<std::tuple<size_t, int64_t, int64_t, int64_t, bool>, size_t> kinds;
  for (size_t i = 0; i < count; ++i) {
    const int64_t gradient = gradients[i] - gradients[i + 1];
    const auto& region = trace.regions[i];
    const auto [kind, is_new] = kinds.try_emplace(
        {region.kind, inputs[i], region.log_bytes, gradient, can_offload_input(region)},
        costs.kinds.size());
    if (is_new) {
      costs.kinds.push_back(block_costs(trace, storages, i, inputs[i], options));
      costs.kinds.back().gradient_bytes = gradient;
    }
    costs.blocks.push_back(kind->second);
  }
  costs.base_bytes = std::max<int64_t>(trace.regions.front().entry_bytes - inputs.front(), 0);
  int64_t held = costs.base_bytes;
  for (size_t i = 0; i < count; ++i) {
    held += inputs[i] + trace.regions[i].log_bytes;
  }
  costs.head = {.peak_bytes = std::max<int64_t>(trace.head_bytes - held + trace.head_peak, 0),
                .forward_ns = nanoseconds(trace.head_ms),
                .backward_ns = nanoseconds(trace.head_ms),
                .gradient_bytes = gradients[count]};
  costs.link = options.speeds->link;
  costs.link.page_bytes = trace.host.page_bytes;
  return costs;
}

}  // namespace reprise::planning
