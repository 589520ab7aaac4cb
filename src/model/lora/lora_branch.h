// The LoRA branch beside one linear layer: two low-rank matrices, and with DoRA a magnitude.
//
// Note [DoRA]
// DoRA trains the length and the direction of each row of a weight apart: the layer's matrix is
// m / |W + s B A| * (W + s B A), with norms of rows and m a vector of lengths. As in peft, no
// gradient flows through the norm. So the layer computes m / |…| * (x W^T + s x A^T B^T) + bias,
// and backward keeps one tensor of the layer's output besides what LoRA keeps, and nothing of the
// weight's size. The base product is scaled too: such a layer computes it without bias, on its own
// (dora.h), and takes no part in fused operators. With dropout peft scales the product of the
// dropped input: x W^T + bias + (m / |…| - 1) * d W^T + m / |…| * s d A^T B^T for d = dropout(x).
//
// Note [Adapters that begin at the base weight]
// PiSSA and OLoRA begin with a part s B0 A0 of the weight W in the adapter, and peft subtracts it
// from W. Here W stays as it is, and the branch computes s (x A^T B^T - x A0^T B0^T), as LoRA of
// twice the rank whose other half is constant: with [A; A0] and [B, -B0]. Both are the same
// function of A and B, but so the model without adapters is the base model to the last bit: a
// reference for dpo and kto. W is not rounded a second time, and the adapter that is saved, of
// twice the rank, is what was trained.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>

namespace reprise {

/// scale * dropout(x) A^T B^T. Operators compute it from the matrices (ops/linear/adapters.h);
/// forward() does so in the type of A and B, whatever the type of x.
class REPRISE_API LoraBranch : public torch::nn::Module {
 public:
  struct Shape {
    int64_t in = 0;
    int64_t out = 0;
    int64_t rank = 0;
    bool has_magnitude = false;  ///< DoRA
  };

  /// Parameters are allocated but not initialised.
  LoraBranch(const Shape& shape, double scale, double dropout, const at::TensorOptions& options);

  /// The output for x without dropout, and without what a magnitude does to it.
  at::Tensor forward(const at::Tensor& x) const;
  /// A and B, or with a start that is subtracted [A; A0] and [B, -B0].
  at::Tensor first_matrix() const;
  at::Tensor last_matrix() const;
  /// The layer's matrix for the base weight (out, in), at least in float32.
  at::Tensor merged(const at::Tensor& weight) const;
  /// What a magnitude multiplies the rows of the weight (out, in) and of the branch by: (out).
  at::Tensor row_factors(const at::Tensor& weight) const;
  /// The norms of the rows of weight (out, in) and branch together: (out), without gradient.
  at::Tensor row_norms(const at::Tensor& weight) const;
  std::shared_ptr<LoraBranch> frozen_copy() const;

  /// Keeps the values of A and B as A0 and B0, whose product is subtracted from now on.
  void subtract_start();
  bool subtracts_start() const { return start_a.defined(); }

  at::Tensor a;              ///< (rank, in)
  at::Tensor b;              ///< (out, rank)
  at::Tensor magnitude;      ///< (out); undefined: not DoRA
  at::Tensor start_a;        ///< A0, a buffer; undefined: none
  at::Tensor minus_start_b;  ///< -B0

  int64_t rank() const { return a.size(0); }
  double scale() const { return scale_; }
  double dropout() const { return dropout_; }
  bool is_dora() const { return magnitude.defined(); }

 private:
  at::Tensor delta() const;  // scale * (B A - B0 A0), (out, in), at least in float32

  double scale_;
  double dropout_;
};

}  // namespace reprise
