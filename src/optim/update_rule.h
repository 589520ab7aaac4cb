// The arithmetic of an optimizer, apart from where its numbers are kept. Every rule works element
// by element, so how a parameter is cut into slices does not change the result, but for how CPU
// kernels round the last few elements of a slice.
#pragma once

#include <reprise/optim/optimizer.h>

#include <memory>
#include <string>
#include <vector>

namespace reprise {

/// Slices to be updated together: flat, on one device, of one dtype, float32 or float64. All lists
/// run over the slices.
struct Piece {
  std::vector<at::Tensor> values;
  std::vector<at::Tensor> grads;
  std::vector<std::vector<at::Tensor>> state;  ///< one list for each of state_names()
  std::vector<at::Tensor> steps;  ///< updates of the slice's parameter, this one included: float32
  double weight_decay = 0;
};

class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  /// What is kept for each element of a parameter, zero at first, named as torch.optim does.
  virtual const std::vector<std::string>& state_names() const = 0;
  /// Updates values and state in place. Does not wait for a GPU.
  virtual void apply(const Piece& piece, double learning_rate) const = 0;
};

/// Throws if an option is out of its range.
std::unique_ptr<const UpdateRule> make_update_rule(const OptimizerOptions& options);

}  // namespace reprise
