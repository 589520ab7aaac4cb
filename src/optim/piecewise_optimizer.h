// The one implementation of Optimizer: it keeps the numbers, an UpdateRule computes with them.
#pragma once

#include "optim/pieces.h"
#include "optim/update_rule.h"

#include <reprise/optim/optimizer.h>

#include <memory>
#include <vector>

namespace reprise {

class PiecewiseOptimizer final : public Optimizer {
 public:
  PiecewiseOptimizer(std::vector<TensorPart> parameters, const OptimizerOptions& options);

  void step(double learning_rate) override;
  NamedTensors state() const override;
  std::vector<TensorPart> state_parts() const override;
  void load(const SafetensorsFile& file, const World& world) override;
  int64_t bytes() const override;
  Parameters wide_parameters() const override;

 private:
  Slot make_slot(const at::Tensor& parameter, double weight_decay) const;
  void zero_fresh_state() const;
  /// visit(slot's number, name, tensor) for everything that is saved, in this order.
  template <class Visit>
  void for_each_tensor(const Visit& visit) const;
  NamedTensors tensors() const;

  std::unique_ptr<const UpdateRule> rule_;
  std::vector<Slot> slots_;       ///< as parameters_
  std::vector<size_t> order_;     ///< of slots_, by comes_before()
  mutable bool is_fresh_ = true;  ///< state holds nothing yet
};

}  // namespace reprise
