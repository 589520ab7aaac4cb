// LoRA adapters in the autograd nodes of the operators that have them.
//
// Note [What adapters keep]
// Backward gets x as a layer that is trained would keep it, in its own type, and the seed of
// dropout. It computes the low-rank rows again, which costs one narrow product. Adapters with
// dropout read one dropped x for all layers of an input, made again from the seed.
#pragma once

#include "ops/linear/adapters.h"
#include "ops/node.h"

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

}  // namespace reprise::ops
