// What all optimizers have in common.
#include <reprise/optim/optimizer.h>

#include "memory/host_memory.h"
#include "optim/host_gradients.h"
#include "optim/rule_optimizer.h"
#include "optim/state_file.h"

#include <utility>

namespace reprise {

bool can_offload(const at::Device& device) {
  return memory::has_host_tier(device);
}

Optimizer::Optimizer(std::vector<TensorPart> parts) : parts_(std::move(parts)) {
  for (const TensorPart& part : parts_) {
    parameters_.emplace_back(part.name, part.values);
  }
}

Optimizer::~Optimizer() = default;

std::unique_ptr<Optimizer> Optimizer::make(const Parameters& parameters,
                                           const OptimizerOptions& options) {
  return std::make_unique<RuleOptimizer>(whole_parts(parameters), options);
}

std::unique_ptr<Optimizer> Optimizer::make(std::vector<TensorPart> parameters,
                                           const OptimizerOptions& options) {
  return std::make_unique<RuleOptimizer>(std::move(parameters), options);
}

void Optimizer::zero_grad() {
  for (const auto& [name, parameter] : parameters_) {
    parameter.mutable_grad().reset();
  }
  if (host_gradients() != nullptr) {
    host_gradients()->zero();
  }
}

at::Tensor Optimizer::clip(double max_norm) const {
  return host_gradients() != nullptr ? host_gradients()->clip(max_norm)
                                     : clip_grad_norm(parameters_, max_norm);
}

int64_t Optimizer::bytes() const {
  return bytes_of(state());
}

int64_t Optimizer::bytes_of(const NamedTensors& tensors) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    bytes += static_cast<int64_t>(tensor.nbytes());
  }
  return bytes;
}

}  // namespace reprise
