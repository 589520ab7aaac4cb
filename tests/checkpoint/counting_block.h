// A module that shows how often it ran.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace reprise::testing {

/// Counts its forward runs, so that a recompute shows.
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(int64_t width = 4)
      : linear(register_module("linear", torch::nn::Linear(width, width))) {
    counter = register_buffer("counter", torch::zeros({}, at::kLong));
  }
  at::Tensor forward(at::Tensor x) {
    ++runs;
    return torch::dropout(torch::tanh(linear(x)), 0.5, is_training());
  }
  std::shared_ptr<torch::nn::Module> clone(const std::optional<torch::Device>&) const override {
    auto copy = std::make_shared<BlockImpl>(linear->options.in_features());
    const torch::NoGradGuard no_grad;
    copy->linear->weight.copy_(linear->weight);
    copy->linear->bias.copy_(linear->bias);
    return copy;
  }
  torch::nn::Linear linear;
  at::Tensor counter;
  int runs = 0;
};
TORCH_MODULE(Block);

inline at::Tensor block_input() {
  return torch::ones({3, 4});
}

}  // namespace reprise::testing
