// Helpers for the autograd nodes of our operators.
//
// Note [Nodes by hand]
// torch::autograd::Function saves what backward needs after forward has run. The recompute of a
// checkpointed region stops as soon as it has the last tensor that backward asks for (early stop).
// An operator that saves its inputs before it computes, as LibTorch's own operators do, is not run
// again if it is the last of its region: for a block that spares the last matmul.
#pragma once

#include "checkpoint/torch_versions.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

namespace reprise::ops {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

/// A node whose edges lead to these inputs, if one of them needs a gradient; otherwise null.
template <class Node, class... Inputs>
auto node_over(const Inputs&... inputs) {
  if (!torch::autograd::compute_requires_grad(inputs...)) {
    return decltype(detail::make_node<Node>()){};
  }
  auto node = detail::make_node<Node>();
  node->set_next_edges(torch::autograd::collect_next_edges(inputs...));
  return node;
}

inline SavedVariable saved_input(const at::Tensor& tensor) {
  return {tensor, /*is_output=*/false};
}

/// For a backward that autograd does not record: second derivatives would silently be zero.
inline void check_differentiated_once(const char* name) {
  TORCH_CHECK(!at::GradMode::is_enabled(),
              "[",
              name,
              "] is differentiable once: call backward without create_graph.");
}

}  // namespace reprise::ops
