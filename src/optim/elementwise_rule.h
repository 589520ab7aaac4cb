// Rules that treat every element alike, so that parameters can be cut anywhere. The way a parameter
// is cut does not change the result, except for how CPU kernels round the last few elements of a
// slice.
#pragma once

#include "optim/update_rule.h"

#include <memory>
#include <string>
#include <vector>

namespace reprise {

/// Slices that are updated together: flat, on one device, all float32 or all float64. Every list
/// has one entry per slice.
struct Chunk {
  std::vector<at::Tensor> values;
  std::vector<at::Tensor> grads;
  std::vector<std::vector<at::Tensor>> state;  ///< one list per state_names()
  std::vector<at::Tensor> steps;               ///< float32: number of updates, including this one
  double weight_decay = 0;
};

class ElementwiseRule : public UpdateRule {
 public:
  /// The state per element of a parameter.
  virtual const std::vector<std::string>& state_names() const = 0;
  /// How many tensors like the chunk's values apply() makes.
  virtual int64_t temporaries() const { return 0; }
  /// Updates values and state in place.
  virtual void apply(const Chunk& chunk, double learning_rate) const = 0;

  std::vector<StateSpec> state_of(const TensorPart& part) const override;
  void step(const std::vector<const ParameterState*>& parameters,
            double learning_rate) const override;
  int64_t update_bytes(const std::vector<const ParameterState*>& parameters) const override;
};

std::unique_ptr<const UpdateRule> make_adamw(const OptimizerOptions& options);
std::unique_ptr<const UpdateRule> make_lion(const OptimizerOptions& options);
std::unique_ptr<const UpdateRule> make_rmsprop(const OptimizerOptions& options);
std::unique_ptr<const UpdateRule> make_sgd(const OptimizerOptions& options);

/// State like the parameter: of its shape, and of the dtype that it is updated in.
StateSpec state_like(const TensorPart& part, std::string name);

}  // namespace reprise
