// What our operators' autograd nodes have in common.
//
// Note [Nodes by hand]
// torch::autograd::Function saves what backward needs after forward has run. A region that is
// computed again stops as soon as it has the last tensor that backward asks for (early stop); for
// the last projection of a block, saving first spares that product. So our nodes save their inputs
// first, as LibTorch's own do.
#pragma once

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>

namespace reprise::ops {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

/// A node over these inputs, if one of them needs a gradient; otherwise null.
template <class Node, class... Inputs>
std::shared_ptr<Node> node_over(const Inputs&... inputs) {
  if (!torch::autograd::compute_requires_grad(inputs...)) {
    return nullptr;
  }
  // deleteNode takes long graphs apart without recursion.
  std::shared_ptr<Node> node(std::make_unique<Node>().release(), torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs...));
  return node;
}

inline SavedVariable saved_input(const at::Tensor& tensor) {
  return {tensor, /*is_output=*/false};
}

/// For backwards that autograd does not see into: second derivatives would come out as zero.
inline void check_differentiated_once(const char* name) {
  TORCH_CHECK(!at::GradMode::is_enabled(),
              "[",
              name,
              "] is differentiable once: call backward without create_graph.");
}

}  // namespace reprise::ops
