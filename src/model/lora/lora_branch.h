// The LoRA branch beside one linear layer: two low-rank matrices.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>

namespace reprise {

/// Computes scale * dropout(x) A^T B^T in the type of A and B, whatever the type of x.
class REPRISE_API LoraBranch : public torch::nn::Module {
 public:
  struct Shape {
    int64_t in = 0;
    int64_t out = 0;
    int64_t rank = 0;
  };

  /// A and B are allocated but not initialised.
  LoraBranch(const Shape& shape, double scale, double dropout, const at::TensorOptions& options);

  at::Tensor forward(const at::Tensor& x, bool training) const;
  /// forward() without B: scale * dropout(x) A^T, (..., rank). x has the type of A, or of autocast.
  at::Tensor apply_a(const at::Tensor& x, bool training) const;
  at::Tensor delta() const;  ///< scale * B A, (out, in), at least in float32
  std::shared_ptr<LoraBranch> frozen_copy() const;

  at::Tensor a;  ///< (rank, in)
  at::Tensor b;  ///< (out, rank)

  int64_t rank() const { return a.size(0); }
  double scale() const { return scale_; }
  double dropout() const { return dropout_; }

 private:
  double scale_;
  double dropout_;
};

}  // namespace reprise
