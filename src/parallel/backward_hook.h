// A hook at a point of the autograd graph, called when backward passes it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace reprise {

/// The same values, with a node that calls `hook` in backward before it passes the gradient on. The
/// tensor itself if it needs no gradient.
at::Tensor with_backward_hook(at::Tensor x, std::function<void()> hook);

}  // namespace reprise
