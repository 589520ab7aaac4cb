// Logits of a head, one chunk of tokens at a time, in buffers that all chunks reuse.
#pragma once

#include <reprise/loss/head.h>
#include <reprise/model/head.h>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace reprise {

/// How logits are computed. Decided in forward, because backward must recompute the same logits
/// even if autocast has ended by then.
struct HeadPlan {
  at::ScalarType product = at::kFloat;     ///< dtype of the matrix products, as in at::linear
  at::ScalarType statistics = at::kFloat;  ///< dtype of everything else; float64 for float64 models
  int64_t tokens = 1;                      ///< per chunk
  double temperature = 1.0;
  bool is_narrow = false;  ///< fused kernels read the logits in the dtype of the products
  LogitShape shape = {};   ///< of the head
};

/// `heads`: how many heads have logits in memory at once. They share the bytes of a chunk.
HeadPlan plan_head(const at::Tensor& hidden,
                   const LinearHead& head,
                   const HeadChunks& chunks,
                   double temperature,
                   int64_t heads = 1);

/// Whether fused kernels serve: they read logits as the products are, perhaps scaled.
bool has_fused_kernels(const LinearHead& head);

/// For a pass on a GPU that has logits only in the dtype of the products: longer chunks.
HeadPlan plan_narrow_head(const at::Tensor& hidden,
                          const LinearHead& head,
                          const HeadChunks& chunks,
                          double temperature = 1.0);

/// Saves a plan in an autograd node, and restores it.
void keep_plan(torch::autograd::AutogradContext& context, const HeadPlan& plan);
HeadPlan kept_plan(const torch::autograd::AutogradContext& context);

/// Calls visit(start, count) for each chunk of `rows` rows.
template <class Visit>
void for_each_chunk(int64_t rows, const HeadPlan& plan, Visit&& visit) {
  for (int64_t start = 0; start < rows; start += plan.tokens) {
    visit(start, std::min(plan.tokens, rows - start));
  }
}

/// A buffer for one chunk. The first chunk is the largest, so it is allocated once.
class ChunkBuffer {
 public:
  /// (rows, columns), uninitialised.
  at::Tensor get(int64_t rows, int64_t columns, const at::TensorOptions& options);
  at::Tensor like(const at::Tensor& chunk) {
    return get(chunk.size(0), chunk.size(1), chunk.options());
  }

 private:
  at::Tensor storage_;
};

class ChunkLogits {
 public:
  /// A weight of another dtype than the products is converted once per object.
  ChunkLogits(const HeadPlan& plan, const at::Tensor& weight, const at::Tensor& bias);

  /// Logits (n, V) of rows (n, H), divided by the temperature, in the dtype of the statistics. The
  /// caller may overwrite them; the next call does.
  at::Tensor of(const at::Tensor& rows);
  /// The same in the dtype of the products, without temperature. Not for capped logits.
  at::Tensor narrow_of(const at::Tensor& rows);
  /// Makes the gradients of the logits of the last of() or narrow_of(), before the division by the
  /// temperature, those of the products.
  void to_products(const at::Tensor& grad_logits) const;

  /// Operands for the matrix products of the gradients, in the dtype of the products.
  const at::Tensor& weight() const { return weight_; }
  at::Tensor as_operand(const at::Tensor& chunk);

 private:
  void multiply(const at::Tensor& rows, at::Tensor& out, double scale) const;
  at::Tensor capped(const at::Tensor& logits);

  HeadPlan plan_;
  at::Tensor weight_, bias_;
  ChunkBuffer logits_, product_, slopes_;
  at::Tensor cap_slopes_;  // derivatives of the cap at the last logits; undefined: there is none
};

/// Autograd does not take undefined tensors as arguments.
inline std::optional<at::Tensor> optional_bias(const LinearHead& head) {
  return head.bias.defined() ? std::optional(head.bias) : std::nullopt;
}

}  // namespace reprise
