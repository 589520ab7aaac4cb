// What all optimizers have in common.
#include <reprise/optim/optimizer.h>

#include "optim/rule_optimizer.h"
#include "optim/state_file.h"

#include <utility>

namespace reprise {

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

void Optimizer::move_state(const at::Device& device) {
  // state() returns the optimizer's own tensors, so their data can be replaced.
  for (const auto& [name, tensor] : state()) {
    if (tensor.device() != device) {
      tensor.set_data(tensor.to(device));
    }
  }
}

}  // namespace reprise
