#include "train/budget/placement.h"

#include <reprise/model/lora.h>

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>

namespace reprise {

namespace {

constexpr std::array<Placement, 4> kPlacements = {
    {{false, false}, {false, true}, {true, false}, {true, true}}};

}  // namespace

std::string describe(const Placement& placement) {
  if (placement.state) {
    return placement.gradients ? "optimizer state and gradients" : "optimizer state";
  }
  return placement.gradients ? "gradients" : "";
}

std::optional<Placement> placement_described(const std::string& text) {
  for (const Placement& each : kPlacements) {
    if (describe(each) == text) {
      return each;
    }
  }
  return std::nullopt;
}

int64_t PlacedBytes::moved(const Placement& placement) const {
  return (placement.state ? 2 * state : 0) +
         (placement.gradients ? 2 * accumulation * gradients : 0);
}

int64_t PlacedBytes::on_device(const Placement& placement) const {
  return (placement.state ? 0 : state) + (placement.gradients ? 0 : gradients);
}

PlacedBytes placed_bytes(const Model& model,
                         const OptimizerOptions& options,
                         int64_t accumulation) {
  PlacedBytes bytes{.accumulation = accumulation};
  Optimizer::Parameters without_memory;
  for (const auto& [name, parameter] : trained_parameters(model)) {
    bytes.gradients += static_cast<int64_t>(parameter.nbytes());
    without_memory.emplace_back(
        name, at::empty(parameter.sizes(), parameter.options().device(at::kMeta)));
  }
  OptimizerOptions on_device = options;
  on_device.host = {};
  bytes.state = Optimizer::make(without_memory, on_device)->bytes();
  return bytes;
}

std::vector<Placement> placements(const PlacedBytes& bytes,
                                  const Placement& least,
                                  const MemoryLimits& limits) {
  std::vector<Placement> all;
  for (const Placement& each : kPlacements) {
    const bool has_least = each.state >= least.state && each.gradients >= least.gradients;
    const bool is_allowed = (limits.may_offload_state || each.state == least.state) &&
                            (limits.may_offload_gradients || each.gradients == least.gradients) &&
                            (bytes.state > 0 || each.state == least.state);
    if (has_least && is_allowed) {
      all.push_back(each);
    }
  }
  std::stable_sort(all.begin(), all.end(), [&](const Placement& a, const Placement& b) {
    return bytes.moved(a) < bytes.moved(b);
  });
  return all;
}

}  // namespace reprise
