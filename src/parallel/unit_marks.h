// Places in the autograd graph where a keeper wants to be told that backward has come by.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace reprise {

/// The same values, with a node that calls `passed` when its gradient comes by, before it goes on.
/// Without gradients: the tensor itself.
at::Tensor marked(at::Tensor x, std::function<void()> passed);

}  // namespace reprise
