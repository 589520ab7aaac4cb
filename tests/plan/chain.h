// A chain of blocks whose tensors are all of one size, 1 MiB, which the CPU counter counts exactly:
// bytes of a step come out in whole tensors, and scalars are the only rest.
#pragma once

#include "plan/cost/trace_peaks.h"
#include "plan/measure/activation_meter.h"
#include "plan/run_planned.h"
#include "plan/trace/step_trace.h"

#include <reprise/reprise.h>

#include <torch/torch.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {

constexpr int64_t kSide = 512;
constexpr int64_t kTensor = kSide * kSide * static_cast<int64_t>(sizeof(float));
constexpr int64_t kScalars = 4096;  // loss, its gradient and such

using Block =
    std::function<at::Tensor(const at::Tensor& h, const std::vector<at::Tensor>& weights)>;

/// h + tanh(h w0) w1: four operators, of which autograd saves inputs, weights and tanh's result.
inline at::Tensor residual_block(const at::Tensor& h, const std::vector<at::Tensor>& weights) {
  return h + torch::mm(torch::tanh(torch::mm(h, weights[0])), weights[1]);
}

struct Chain {
  explicit Chain(size_t count,
                 const Block& block = residual_block,
                 c10::Device where = c10::Device(c10::kCPU))
      : Chain(std::vector<Block>(count, block), where) {}
  explicit Chain(std::vector<Block> functions, c10::Device where = c10::Device(c10::kCPU))
      : blocks(std::move(functions)), device(where), x(torch::randn({kSide, kSide}, device)) {
    for (size_t i = 0; i < blocks.size(); ++i) {
      weights.push_back({weight(), weight()});
    }
  }

  at::Tensor weight() const {
    return (torch::randn({kSide, kSide}, device) * 0.04).requires_grad_();
  }

  std::vector<at::Tensor> parameters() const {
    std::vector<at::Tensor> all;
    for (const auto& pair : weights) {
      all.insert(all.end(), pair.begin(), pair.end());
    }
    return all;
  }

  /// Runs `first`, and those that a plan joins with it. Returns how many that were.
  size_t run_from(size_t first, at::Tensor& h) const {
    std::vector<CheckpointOptions> options;
    std::vector<std::function<at::Tensor(const at::Tensor&)>> functions;
    for (size_t i = first; i < weights.size(); ++i) {
      options.push_back({.name = "block" + std::to_string(i)});
      functions.emplace_back(
          [run = blocks[i], w = weights[i]](const at::Tensor& input) { return run(input, w); });
    }
    std::vector<const CheckpointOptions*> chain;
    for (const auto& asked : options) {
      chain.push_back(&asked);
    }
    const auto joined = detail::has_region_planner() ? detail::ask_to_join(chain) : std::nullopt;
    functions.resize(joined ? joined->inside.size() : 1);
    const size_t count = functions.size();
    h = joined ? detail::call_joined(*joined, std::move(functions), std::move(h))
               : checkpoint(options.front(), functions.front(), std::move(h));
    return count;
  }

  void step(const std::function<void()>& blocks_ended = [] {}) const {
    auto h = x;
    for (size_t i = 0; i < weights.size();) {
      i += run_from(i, h);
    }
    blocks_ended();
    // Moved, so that no name keeps the last block's result alive.
    std::exchange(h, {}).square().mean().backward();
  }

  std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> all;
    for (auto& parameter : parameters()) {
      all.push_back(parameter.grad().defined() ? parameter.grad().clone() : at::Tensor());
    }
    return all;
  }

  void clear_gradients() const {
    for (auto& parameter : parameters()) {
      parameter.mutable_grad() = at::Tensor();
    }
  }

  std::vector<Block> blocks;
  c10::Device device;
  at::Tensor x;
  std::vector<std::vector<at::Tensor>> weights;
};

inline planning::StepTrace trace_of(const Chain& chain) {
  return planning::trace_step([&] { chain.step(); }, chain.device);
}

inline OpDecision keep(const planning::TracedOp& op) {
  return {.name = op.name, .overload = op.overload, .call_index = op.call_index};
}

/// Decisions for all regions: `decide` says for a region and an operator what becomes of it.
inline std::vector<RegionDecision> deciding(
    const planning::StepTrace& trace,
    const std::function<Decision(size_t, const planning::TracedOp&)>& decide) {
  std::vector<RegionDecision> decisions;
  for (size_t i = 0; i < trace.regions.size(); ++i) {
    decisions.push_back({.name = trace.regions[i].name});
    for (const auto& op : trace.regions[i].ops) {
      const auto decision = op.can_keep ? decide(i, op) : Decision::Recompute;
      if (decision != Decision::Recompute) {
        decisions.back().ops.push_back(keep(op));
        decisions.back().ops.back().decision = decision;
      }
    }
  }
  return decisions;
}

/// Offloads the inputs of every region that has one to offload, unless it is plain.
inline void offload_inputs(const planning::StepTrace& trace,
                           std::vector<RegionDecision>& decisions) {
  for (size_t i = 0; i < decisions.size(); ++i) {
    const auto& inputs = trace.regions[i].inputs;
    decisions[i].offload_inputs =
        !decisions[i].is_plain &&
        std::any_of(inputs.begin(), inputs.end(), [](const planning::TracedInput& input) {
          return input.host_bytes > 0;
        });
  }
}

/// Decisions for all regions: `decide` says for a region and an operator whether it is kept.
inline std::vector<RegionDecision> keeping(
    const planning::StepTrace& trace,
    const std::function<bool(size_t, const planning::TracedOp&)>& decide) {
  return deciding(trace, [&](size_t region, const planning::TracedOp& op) {
    return decide(region, op) ? Decision::Keep : Decision::Recompute;
  });
}

inline std::vector<RegionDecision> all_full(const planning::StepTrace& trace) {
  return keeping(trace, [](size_t, const planning::TracedOp&) { return false; });
}

inline std::vector<RegionDecision> all_plain(const planning::StepTrace& trace) {
  auto decisions = all_full(trace);
  for (auto& decision : decisions) {
    decision.is_plain = true;
  }
  return decisions;
}

/// Joins the regions `first` to `last`: plain inside, or regions that recompute everything.
inline std::vector<RegionDecision> joining(std::vector<RegionDecision> decisions,
                                           size_t first,
                                           size_t last,
                                           bool is_plain) {
  for (size_t i = first; i <= last; ++i) {
    decisions[i] = {.name = decisions[i].name, .is_plain = is_plain};
  }
  decisions[first].joined = last - first;
  return decisions;
}

/// Most activation bytes of a real step under `decisions`.
inline int64_t measured_peak(c10::Device device,
                             const std::vector<at::Tensor>& parameters,
                             const std::vector<RegionDecision>& decisions,
                             const std::function<void()>& step) {
  planning::ActivationMeter meter(device, parameters);
  run_planned(decisions, step);
  return meter.peak();
}

}  // namespace reprise::testing
