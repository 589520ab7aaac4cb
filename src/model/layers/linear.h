// Linear layers in either weight layout, with optional LoRA branches; and embedding tables.
//
// Note [Which kernel computes a linear layer]
// Callers say what they want, and these functions choose what computes it:
//
//   Linear::forward, apply_linear   at::linear; for a decoding step in float32 on the CPU the
//   kernel
//                                   of ops/cpu/small_batch_linear.h
//   … in Precision::Float32         the same on converted tensors, without autocast
//   … with a residual               reprise::linear_add where fused_values() allows it, or
//                                   reprise::linear and a sum if the residual is wider than x;
//                                   otherwise as without a residual, and a sum
//   joined_forward                  reprise::linear over adjacent weights (joined_linears.h);
//   queries,
//                                   keys and values with rotary embedding by reprise::qkv_rope
//                                   (attention.cpp)
//   down projection, gated MLP      reprise::gated_linear (mlp.cpp)
//   … with LoRA branches            reprise::adapted_linear in place of reprise::linear, of
//                                   linear_add and of at::linear; qkv_rope and gated_linear take
//                                   the branches as arguments. In Precision::Float32, and with a
//                                   KV cache under autocast, reprise::adapted_sum onto the product
//   layers with DoRA                at::linear for each alone (lora/dora.h)
//   … over quantised weights        the same operators, over a matrix that is made for each product
//                                   (ops/linear/weight.h); reprise::linear for DoRA, in
//                                   Precision::Float32, and with a KV cache under autocast
#pragma once

#include "model/families/architecture.h"
#include "model/layers/pass.h"
#include "model/layers/weight_and_bias.h"
#include "model/lora/lora_branch.h"
#include "ops/linear/weight.h"
#include "quant/quantized_weight.h"

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace reprise {

enum class Precision : uint8_t {
  AsGiven,  ///< in the type of the tensors, or of autocast
  Float32,  ///< in float32, whatever the types and autocast
};

/// Weight and bias as our fused operators take them.
struct FusedValues {
  ops::Weight weight;
  at::Tensor bias;  ///< undefined: none
};

struct LinearOptions {
  at::Tensor residual = {};  ///< added to the result; undefined: none
  Precision precision = Precision::AsGiven;
};

class REPRISE_API Linear : public WeightAndBias {
 public:
  struct Shape {
    int64_t in = 0;
    int64_t out = 0;
    bool has_bias = false;
    WeightLayout layout = WeightLayout::OutIn;  ///< of `weight`
  };

  /// Parameters are allocated but not initialised.
  Linear(const Shape& shape, const at::TensorOptions& options);
  /// Takes existing tensors as parameters; `bias_storage` may be undefined.
  Linear(const Shape& shape, const at::Tensor& weight_storage, const at::Tensor& bias_storage);

  /// residual + x W^T + b + the LoRA branch: x (..., in) -> (..., out).
  at::Tensor forward(const at::Tensor& x,
                     const Pass& pass,
                     const LinearOptions& options = {}) const;

  /// The layer as one matrix that includes the LoRA branch, for losses.
  LinearHead as_head(const Pass& pass, bool in_float32) const;

  /// Weight (out, in) and bias for our fused operators, whose input is autocast_input(x). None if
  /// the weight is stored (in, out), or quantised and multiplied in another type than that input's;
  /// if the adapter is DoRA; and in passes with a KV cache under autocast: autocast caches its
  /// casts between passes, while our operators would cast again for every token.
  std::optional<FusedValues> fused_values(const at::Tensor& x, const Pass& pass) const;
  /// The LoRA branch that takes part in a pass; null: none.
  const LoraBranch* active_branch(AdapterUse adapters) const;

  /// The base weight as (out, in) and the bias in a pass with these adapters.
  Values matrix(AdapterUse adapters) const;

  const Shape& shape() const { return shape_; }

  /// Replaces the parameter `weight`, which becomes undefined, by its quantised form. Products are
  /// computed in `compute_type`; unset: in the type of the input, or of autocast.
  void quantize(const QuantScheme& scheme, std::optional<at::ScalarType> compute_type);
  void set_quantized(std::shared_ptr<const quant::QuantizedWeight> quantized,
                     std::optional<at::ScalarType> compute_type);
  /// Makes `weight` a parameter of this type again.
  void dequantize(at::ScalarType type);
  const std::shared_ptr<const quant::QuantizedWeight>& quantized() const { return quantized_; }
  /// The weight (out, in) in this type, whether it is quantised or not.
  at::Tensor full_weight(at::ScalarType type) const;
  /// Device and type of the weight; of a quantised one, the type that it was quantised from.
  at::TensorOptions options() const;

  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Device device, bool non_blocking = false) override;

  /// Sets or removes (null) the trained branch. It is a submodule, "lora", so its parameters are
  /// the model's.
  void set_branch(std::shared_ptr<LoraBranch> branch);
  const std::shared_ptr<LoraBranch>& branch() const { return branch_; }
  /// Keeps or drops a frozen copy of the branch, for AdapterUse::Reference.
  void keep_reference_branch() { reference_branch_ = branch_->frozen_copy(); }
  void forget_reference_branch() { reference_branch_.reset(); }

  /// Adds the branch's product to the weight and keeps the original; unfold_branch() restores it.
  void fold_branch();
  void unfold_branch();
  bool is_folded() const { return is_folded_; }

 private:
  at::Tensor as_out_in(const at::Tensor& stored) const;
  std::optional<FusedValues> adapted_values(const at::Tensor& x, const Pass& pass) const;
  bool computes_alone(const Pass& pass) const;
  at::Tensor forward_onto(const at::Tensor& residual, const at::Tensor& x, const Pass& pass) const;
  at::Tensor add_branch(const at::Tensor& y, const at::Tensor& x, const Pass& pass) const;
  at::Tensor quantized_product(const at::Tensor& x,
                               const at::Tensor& own_bias,
                               Precision precision) const;
  void move_quantized(at::Device device, bool non_blocking);

  Shape shape_;
  std::shared_ptr<const quant::QuantizedWeight> quantized_;  // null: `weight` is a parameter
  std::optional<at::ScalarType> compute_type_;
  std::shared_ptr<LoraBranch> branch_, reference_branch_;  // null: none
  bool is_folded_ = false;
};

/// x W^T + b for a weight that is no Linear of its own (a tied head, rows of a head): x (..., in),
/// weight (out, in), bias (out) or undefined.
at::Tensor apply_linear(const at::Tensor& x,
                        const at::Tensor& weight,
                        const at::Tensor& bias = {},
                        Precision precision = Precision::AsGiven);

/// x as autocast would convert it for a matmul; x itself where autocast is off.
at::Tensor autocast_input(const at::Tensor& x);

/// A table of vectors, (rows, columns). As the weight of a linear layer it is a tied head.
class REPRISE_API Embedding : public WeightAndBias {
 public:
  Embedding(int64_t rows, int64_t columns, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& ids, AdapterUse adapters) const;
  /// Looking up this row gives it no gradient, as padding_idx of nn.Embedding; a tied head still
  /// does. Unset, or not a row: none.
  void fix_row(std::optional<int64_t> row);

 private:
  static constexpr int64_t kNoRow = -1;  // at::embedding's
  int64_t fixed_row_ = kNoRow;
};

}  // namespace reprise
