// A module of one weight and perhaps a bias that an adapter may replace by its own.
//
// Note [Three states of a weight]
// An adapter that trains a module whole (peft's modules_to_save) makes `weight` and `bias` its own.
// What they were before stays as the original, for passes with adapters off. What they were when
// training began may be kept as the reference. Only `weight` and `bias` are parameters; the copies
// are frozen, stay where they were made, and belong to nobody else.
#pragma once

#include <reprise/export.h>
#include <reprise/model/model.h>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

namespace reprise {

class REPRISE_API Weighted : public torch::nn::Module {
 public:
  at::Tensor weight;
  at::Tensor bias;  ///< undefined: none

  void keep_original();
  void keep_reference();
  /// Puts the original back, to the last bit, and forgets the copy.
  void restore_original();
  /// What is now, stays.
  void forget_copies();
  bool has_original() const { return original_.weight.defined(); }

 protected:
  struct Values {
    at::Tensor weight;
    at::Tensor bias;
  };
  Values values(AdapterUse use) const;

 private:
  Values original_, reference_;  // undefined: none
};

}  // namespace reprise
