// The node of a reentrant region: its backward runs the region again, and a nested backward call.
#pragma once

#include "checkpoint/graph_mark.h"
#include "checkpoint/region.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise::detail {

/// Note [Reentrant regions and autocast's cache]
/// Autocast caches the casts of parameters, together with their autograd history. A cast made in
/// the no-grad forward has no history: later users would find it and get no gradient through it. A
/// cast made in the outer graph would lead the inner backward out of the region. So reentrant
/// regions neither read nor fill the cache. Non-reentrant ones share it, because they drop the
/// graph of their recompute.
class ReentrantNode final : public torch::autograd::Node {
 public:
  explicit ReentrantNode(std::unique_ptr<Region> region) : region_(std::move(region)) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override;
  void release_variables() override { region_.reset(); }
  std::string name() const override { return "ReentrantCheckpointBackward"; }

  /// Metadata of the outputs in forward, to compare with.
  std::vector<at::TensorOptions> output_options;
  std::vector<std::vector<int64_t>> output_sizes;
  /// See Note [Samples of values].
  std::vector<std::vector<double>> output_samples;

 private:
  struct Writes;
  torch::autograd::variable_list run_backward(const torch::autograd::variable_list& grads);
  std::vector<at::Tensor> rerun(std::vector<at::Tensor> inputs, Writes& writes) const;
  void check_outputs(const std::vector<at::Tensor>& outputs) const;
  void check_captures(const torch::autograd::variable_list& roots, const GraphMark& mark) const;

  std::unique_ptr<Region> region_;
};

}  // namespace reprise::detail
