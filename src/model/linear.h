// Projections, in either weight layout, with room for LoRA branches; and tables of vectors.
#pragma once

#include "model/architecture.h"
#include "model/lora_branch.h"
#include "model/pass.h"
#include "model/weighted.h"

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace reprise {

class REPRISE_API Linear : public Weighted {
 public:
  struct Shape {
    int64_t in = 0;
    int64_t out = 0;
    bool has_bias = false;
    WeightLayout layout = WeightLayout::OutIn;  ///< of `weight`
  };

  Linear(const Shape& shape, const at::TensorOptions& options);
  /// Parameters that lie in room of the caller's; bias_room may be undefined.
  Linear(const Shape& shape, const at::Tensor& weight_room, const at::Tensor& bias_room);

  at::Tensor forward(const at::Tensor& x, const Pass& pass) const;
  /// stream + forward(x), without a pass of its own over the sum where that can be.
  at::Tensor forward_onto(const at::Tensor& stream, const at::Tensor& x, const Pass& pass) const;
  /// The same in float32, whatever the parameters' type and autocast.
  at::Tensor forward_in_float32(const at::Tensor& x, const Pass& pass) const;

  /// The same as one matrix, the branch added to it.
  LinearHead as_head(const Pass& pass, bool in_float32) const;

  /// What a pass multiplies product_input(x) with by our operators, whatever an adapter adds to it.
  /// None if the weight is not stored (out, in), and in passes with a cache under autocast: its own
  /// casts are kept from pass to pass, our operators would make them anew for every token.
  struct Product {
    at::Tensor weight;  ///< (out, in)
    at::Tensor bias;    ///< undefined: none
  };
  std::optional<Product> product(const Pass& pass) const;
  /// The adapter's branch that takes part in a pass; null: none.
  const LoraBranch* active_branch(AdapterUse adapters) const;

  const Shape& shape() const { return shape_; }

  /// Sets the branch that is trained, or takes it away (null). It is a submodule, "lora", so that
  /// its parameters are the model's.
  void set_branch(std::shared_ptr<LoraBranch> branch);
  const std::shared_ptr<LoraBranch>& branch() const { return branch_; }
  /// Keeps a frozen copy of the branch for AdapterUse::Reference, or takes it away.
  void keep_reference_branch() { reference_branch_ = branch_->frozen_copy(); }
  void forget_reference_branch() { reference_branch_.reset(); }

  /// Adds the branch's product to the weight, whose original is kept, and takes it off again.
  void fold_branch();
  void unfold_branch();
  bool is_folded() const { return is_folded_; }

 private:
  at::Tensor in_out_order(const at::Tensor& w) const;
  at::Tensor add_branch(const at::Tensor& y, const at::Tensor& x, const Pass& pass) const;

  Shape shape_;
  std::shared_ptr<LoraBranch> branch_, reference_branch_;  // null: none
  bool is_folded_ = false;
};

/// x in the type of products: autocast's where it is on, as at::linear would convert it.
at::Tensor product_input(const at::Tensor& x);

/// x W^T + b in float32, whatever their types and autocast.
at::Tensor linear_in_float32(const at::Tensor& x,
                             const at::Tensor& weight,
                             const at::Tensor& bias = {});

/// A table of vectors, (rows, columns). A projection onto it is a tied head.
class REPRISE_API Embedding : public Weighted {
 public:
  Embedding(int64_t rows, int64_t columns, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& ids, AdapterUse adapters) const;
};

}  // namespace reprise
