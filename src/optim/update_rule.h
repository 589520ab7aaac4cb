// The arithmetic of an optimizer, separate from its state. Every rule is elementwise, so the way a
// parameter is split into slices does not change the result, except for how CPU kernels round the
// last few elements of a slice.
#pragma once

#include <reprise/optim/optimizer.h>

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

class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  /// The state per element of a parameter, initially zero, with torch.optim's names.
  virtual const std::vector<std::string>& state_names() const = 0;
  /// Updates values and state in place. Does not synchronize with a GPU.
  virtual void apply(const Chunk& chunk, double learning_rate) const = 0;
};

/// Throws if an option is out of its range.
std::unique_ptr<const UpdateRule> make_update_rule(const OptimizerOptions& options);

}  // namespace reprise
