// LibTorch's tensors and autograd by the names torch::…, without its layers, optimizers and data
// loaders: a test that includes torch/torch.h takes twice as long to compile.
#pragma once

#include <ATen/ATen.h>
#include <torch/autograd.h>
#include <torch/csrc/autograd/generated/variable_factories.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <functional>

namespace reprise::testing {

/// What a region runs.
using Fn = std::function<at::Tensor(at::Tensor)>;

}  // namespace reprise::testing
