// The arithmetic of an optimizer, separate from keeping, saving and loading its state.
//
// A rule gets all parameters of a step and decides how to go through them. Most are elementwise
// (elementwise_rule.h); others need blocks of a parameter (adamw_8bit) or all of it (adafactor,
// muon). What a rule needs, check() verifies before training begins.
#pragma once

#include "optim/parameter_state.h"

#include <reprise/io/tensor_part.h>
#include <reprise/optim/optimizer.h>

#include <memory>
#include <vector>

namespace reprise {

class UpdateRule {
 public:
  virtual ~UpdateRule() = default;

  /// Throws if the rule cannot update this part of a parameter.
  virtual void check(const TensorPart&) const {}
  /// The state of a parameter besides the count of its updates.
  virtual std::vector<StateSpec> state_of(const TensorPart& part) const = 0;
  /// Whether a 16-bit parameter is updated in a float32 copy. A rule without copies rounds
  /// stochastically (stochastic_rounding.h).
  virtual bool has_copies() const { return true; }
  /// Whether the parameter must be updated as a whole. Others may be updated in slices that begin
  /// at multiples of kChunkElements, with the state that state_of() has for them.
  virtual bool needs_all_of(const ParameterState&) const { return false; }
  /// Updates parameters, all of which have gradients and are counted, and their state. They are
  /// sorted by comes_before(). Does not synchronize with a GPU.
  virtual void step(const std::vector<const ParameterState*>& parameters,
                    double learning_rate) const = 0;
  /// The most that step() takes in addition to parameters, gradients and state.
  virtual int64_t update_bytes(const std::vector<const ParameterState*>& parameters) const = 0;
};

/// Throws if an option is out of its range, or has no effect.
std::unique_ptr<const UpdateRule> make_update_rule(const OptimizerOptions& options);

}  // namespace reprise
