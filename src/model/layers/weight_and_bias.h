// A module with one weight and an optional bias, of which an adapter may train its own version.
//
// Note [Three states of a weight]
// An adapter that trains a whole module (peft's modules_to_save) trains `weight` and `bias`. Their
// values before that are kept as the original, for passes with adapters off. Their values when
// training began may be kept as the reference. Only `weight` and `bias` are parameters; the copies
// are frozen, private to this module, and stay on the device where they were made.
#pragma once

#include <reprise/export.h>
#include <reprise/model/model.h>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

namespace reprise {

class REPRISE_API WeightAndBias : public torch::nn::Module {
 public:
  at::Tensor weight;
  at::Tensor bias;  ///< undefined: none

  void keep_original();
  void keep_reference();
  /// Restores the original to the last bit and drops the copy.
  void restore_original();
  /// Drops both copies; the current values become the only ones.
  void forget_copies();
  bool has_original() const { return original_.weight.defined(); }

  struct Values {
    at::Tensor weight;
    at::Tensor bias;  ///< undefined: none
  };
  /// The values that take part in a pass with these adapters.
  Values values(AdapterUse use) const;

 private:
  Values original_, reference_;  // undefined: none
};

}  // namespace reprise
