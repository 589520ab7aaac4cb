// The implementation of Optimizer: it holds the state, and an UpdateRule does the arithmetic.
#pragma once

#include "optim/host_gradients.h"
#include "optim/parameter_state.h"
#include "optim/staged_update.h"
#include "optim/update_rule.h"

#include <reprise/optim/optimizer.h>

#include <memory>
#include <vector>

namespace reprise {

class RuleOptimizer final : public Optimizer {
 public:
  RuleOptimizer(std::vector<TensorPart> parameters, const OptimizerOptions& options);

  void step(double learning_rate) override;
  NamedTensors state() const override;
  std::vector<TensorPart> state_parts() const override;
  void load(const TensorFile& file, const World& world) override;
  HostGradients* host_gradients() const override { return gradients_.get(); }
  void place(const Placement& host) override;
  int64_t bytes() const override;
  int64_t host_bytes() const override;
  int64_t moved_bytes() const override;
  int64_t update_bytes() const override;
  Parameters wide_parameters() const override;

 private:
  ParameterState make_state(const TensorPart& part, double weight_decay) const;
  at::Tensor empty_state(at::IntArrayRef sizes, at::ScalarType dtype, const at::Tensor& like) const;
  void check_offload() const;
  void place_state(bool is_on_host);
  void place_gradients(bool are_on_host);
  void make_stages();
  bool has_gradient(size_t parameter) const;
  /// Lets this thread use state in host memory.
  void settle() const;
  void zero_fresh_state() const;
  /// Calls visit(TensorPart) for every saved tensor, always in the same order.
  template <class Visit>
  void for_each_tensor(const Visit& visit) const;
  NamedTensors tensors() const;

  std::unique_ptr<const UpdateRule> rule_;
  bool is_offloaded_;
  std::vector<ParameterState> states_;        ///< one per parameter
  std::vector<size_t> order_;                 ///< indices of states_, sorted by comes_before()
  mutable bool is_fresh_ = true;              ///< state is not zeroed yet
  std::unique_ptr<HostGradients> gradients_;  ///< null: gradients are on the device
  std::unique_ptr<StagedUpdate> stages_;      ///< null: so is the state. Dies before both
};

}  // namespace reprise
