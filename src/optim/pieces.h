// How a step goes over the parameters.
//
// Note [Updates in pieces]: a step goes over slices of parameters, gathered into pieces of bounded
// size. Small parameters share one kernel call; a large one is cut. What a step allocates (float32
// gradients of 16-bit parameters, the temporaries of a rule that is not fused) is then as large as
// a piece. All at once it would be as large as the model, while the gradients are still alive.
#pragma once

#include "optim/update_rule.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace reprise {

/// One parameter, and what is kept for it.
struct Slot {
  at::Tensor parameter;
  at::Tensor master;  ///< float32, where the parameter is of 16 bits; else undefined
  std::vector<at::Tensor> state;
  at::Tensor step;  ///< how often it was updated: float32, one element, on its device
  double weight_decay = 0;

  const at::Tensor& value() const { return master.defined() ? master : parameter; }
};

/// In an order by this, slots that can be in one piece follow each other.
bool comes_before(const Slot& a, const Slot& b);

/// Gathers the slices of one step, and updates them whenever a piece is full.
class PiecePass {
 public:
  PiecePass(const UpdateRule& rule, double learning_rate);

  /// The slot's parameter has a gradient. The slot must stay where it is until finish().
  void add(const Slot& slot);
  /// Updates what was gathered.
  void finish();

 private:
  void clear();
  void add_slice(const Slot& slot, const at::Tensor& grad, int64_t begin, int64_t count);
  void cast_gradients();

  const UpdateRule& rule_;
  double learning_rate_;
  Piece piece_;
  std::vector<at::Tensor> rounded_;  ///< 16-bit slices that follow piece_.values
  const Slot* first_ = nullptr;      ///< of the piece; null while it is empty
  int64_t elements_ = 0;
};

}  // namespace reprise
