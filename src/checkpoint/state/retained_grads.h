// Tensors that keep their gradient though they are no leaves (retain_grad). LibTorch keeps the name
// of such a tensor to itself, in the hook that accumulates: ours has it, so that a backward call
// inside a region can be undone (TensorLog).
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <vector>

namespace reprise::detail {

/// Call it after retain_grad().
void name_retained(const at::Tensor& tensor);

/// Adds the tensors whose gradients a run of `node` retains. Throws if one cannot be known.
void add_retained(torch::autograd::Node& node, std::vector<at::Tensor>& tensors);

}  // namespace reprise::detail
