// Projections, in either weight layout, with room for LoRA branches; and tables of vectors.
#pragma once

#include "model/architecture.h"
#include "model/lora_branch.h"
#include "model/pass.h"
#include "model/weighted.h"

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <vector>

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

  /// What a pass multiplies with, whatever an adapter adds to it. None under autocast, which makes
  /// weights of its own, and if the weight is not stored (out, in).
  struct Product {
    at::Tensor weight;  ///< (out, in)
    at::Tensor bias;    ///< undefined: none
  };
  std::optional<Product> product(const Pass& pass) const;
  /// What the adapter of a pass adds, in its own type. Only if it has one.
  at::Tensor branch_output(const at::Tensor& x, const Pass& pass) const;
  bool has_branch(const Pass& pass) const;
  at::ScalarType branch_type(const Pass& pass) const;

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
  const LoraBranch* active_branch(AdapterUse adapters) const;
  at::Tensor add_branch(const at::Tensor& y, const at::Tensor& x, const Pass& pass) const;

  Shape shape_;
  std::shared_ptr<LoraBranch> branch_, reference_branch_;  // null: none
  bool is_folded_ = false;
};

/// Projections of one input, their parameters one after the other in memory: of this shape, but
/// with these widths.
std::vector<std::shared_ptr<Linear>> adjacent_linears(const std::vector<int64_t>& outs,
                                                      const Linear::Shape& shape,
                                                      const at::TensorOptions& options);

/// All of them as one product. None if one has none.
std::optional<Linear::Product> joined_product(std::initializer_list<const Linear*> linears,
                                              const Pass& pass);
/// A product with what adapters add to it (undefined: nothing), summed in the wider type and
/// rounded once, as peft does.
at::Tensor add_adapters(const at::Tensor& product, const at::Tensor& added);

/// What their adapters add to it. Undefined if none has one.
at::Tensor joined_branches(std::initializer_list<const Linear*> linears,
                           const at::Tensor& x,
                           const Pass& pass);

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
