// Logits of a head, a chunk of tokens at a time, in buffers that every chunk reuses.
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

/// How logits are made, decided in forward: backward has to make the same ones, though autocast may
/// have ended by then.
struct HeadPlan {
  at::ScalarType product = at::kFloat;     ///< type of the matrix products, as at::linear takes it
  at::ScalarType statistics = at::kFloat;  ///< float64 for float64 models
  int64_t tokens = 1;                      ///< per chunk
  double temperature = 1.0;
  bool is_narrow = false;  ///< logits are used in the products' type: kernels do the rest
};

/// `heads`: how many heads' logits are held at once. They share the bytes of a chunk.
HeadPlan plan_head(const at::Tensor& hidden,
                   const LinearHead& head,
                   const HeadChunks& chunks,
                   double temperature,
                   int64_t heads = 1);

/// For a pass that holds logits in the products' type alone, on a GPU: longer chunks.
HeadPlan plan_narrow_head(const at::Tensor& hidden,
                          const LinearHead& head,
                          const HeadChunks& chunks,
                          double temperature = 1.0);

/// Keeps a plan in an autograd node, and gets it back.
void keep_plan(torch::autograd::AutogradContext& context, const HeadPlan& plan);
HeadPlan kept_plan(const torch::autograd::AutogradContext& context);

/// Calls visit(start, count) for each chunk of `rows` rows.
template <class Visit>
void for_each_chunk(int64_t rows, const HeadPlan& plan, Visit&& visit) {
  for (int64_t start = 0; start < rows; start += plan.tokens) {
    visit(start, std::min(plan.tokens, rows - start));
  }
}

/// Room for a chunk. The first is the largest, so it is allocated once.
class ChunkBuffer {
 public:
  /// (rows, columns), with what the last use left in it.
  at::Tensor get(int64_t rows, int64_t columns, const at::TensorOptions& options);
  at::Tensor like(const at::Tensor& chunk) {
    return get(chunk.size(0), chunk.size(1), chunk.options());
  }

 private:
  at::Tensor storage_;
};

class ChunkLogits {
 public:
  /// A weight of another type than the products' is converted once, for as long as this lives.
  ChunkLogits(const HeadPlan& plan, const at::Tensor& weight, const at::Tensor& bias);

  /// (n, V) of rows (n, H), over the temperature, in the type of statistics. The caller may write
  /// it; the next call does.
  at::Tensor of(const at::Tensor& rows);
  /// The same in the products' type, without a temperature.
  at::Tensor narrow_of(const at::Tensor& rows);

  /// The operands of the gradients' products, in their type.
  const at::Tensor& weight() const { return weight_; }
  at::Tensor as_operand(const at::Tensor& chunk);

 private:
  void multiply(const at::Tensor& rows, at::Tensor& out, double scale) const;

  HeadPlan plan_;
  at::Tensor weight_, bias_;
  ChunkBuffer logits_, product_;
};

/// An undefined tensor is no argument at all to autograd.
inline std::optional<at::Tensor> optional_bias(const LinearHead& head) {
  return head.bias.defined() ? std::optional(head.bias) : std::nullopt;
}

}  // namespace reprise
