// LoRA adapters in the autograd nodes of the operators that have them.
//
// Note [What adapters keep]
// Backward gets x as a layer that is trained would keep it, in its own type, and the seed of
// dropout. It computes the low-rank rows again, which costs one narrow product. Adapters with
// dropout read one dropped x for all layers of an input, made again from the seed.
#pragma once

#include "ops/linear/adapters.h"
#include "ops/node.h"
#include "ops/operator.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <utility>
#include <vector>

namespace reprise::ops {

/// Adapters in an autograd node.
class SavedAdapters {
 public:
  void save(const Adapters& adapters);
  Adapters unpack() const;
  void release();
  size_t count() const { return a_.size(); }

 private:
  std::vector<SavedVariable> a_, b_;
  SavedVariable seed_;
  Adapters plain_;  // all but the tensors
};

/// What a running backward needs of a node whose inputs from number `first` on are `count` a, then
/// as many b.
AdapterNeeds adapter_needs(const torch::autograd::Node& node, size_t first, size_t count);

/// Appends the gradients of every a, then of every b.
void append(variable_list& results, AdapterGradients gradients);

/// Calls an operator whose schema ends in kAdapterArguments, below autograd: its other arguments
/// are the first.
template <class Operator, class... Arguments>
auto call_with(const Operator& op, const Adapters& adapters, Arguments&&... arguments) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return op.call(std::forward<Arguments>(arguments)...,
                 adapters.a,
                 adapters.b,
                 adapters.starts,
                 adapters.scales,
                 adapters.dropout,
                 as_optional(adapters.seed));
}

}  // namespace reprise::ops
