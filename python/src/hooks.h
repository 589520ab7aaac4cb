// Hooks that Python programs add to tensors and nodes. They stand in dictionaries, which LibTorch
// sees as one hook.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <memory>

namespace reprise::python {

/// See HostLanguage::keep_hooks.
std::shared_ptr<void> kept_hooks(torch::autograd::Node& node);

}  // namespace reprise::python
