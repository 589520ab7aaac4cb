// The compute-bound rows of bench_kernels: attention and matrix products with the sizes of a
// model's step; products in forward, for the gradient of the input, and for the gradient of the
// weight.
#pragma once

#include "kernel_rows.h"

#include "ops/linear/linear_add.h"
#include "ops/linear/matmul.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpu {

/// Queries, keys and values as qkv_rope returns them: views of one product.
inline std::vector<at::Tensor> random_heads(const Sizes& s) {
  const auto& m = s.model;
  auto parts = s.random({s.batch, s.seq, s.all_heads(), m.head_dim})
                   .transpose(1, 2)
                   .split_with_sizes({m.heads, m.kv_heads, m.kv_heads}, 1);
  for (auto& part : parts) {
    part = part.detach().requires_grad_();
  }
  return parts;
}

inline at::Tensor attend(const std::vector<at::Tensor>& heads) {
  const at::AutoGradMode with_gradients(true);  // in training, forward also writes the logsumexp
  return at::scaled_dot_product_attention(heads[0],
                                          heads[1],
                                          heads[2],
                                          /*attn_mask=*/{},
                                          /*dropout_p=*/0.0,
                                          /*is_causal=*/true,
                                          /*scale=*/std::nullopt,
                                          /*enable_gqa=*/heads[0].size(1) != heads[1].size(1));
}

inline std::vector<Row> attention_rows(const Sizes& s) {
  // Two products of T x T x head_dim per head, half of each masked; backward has five.
  const double flops = 2.0 * static_cast<double>(s.tokens() * s.seq) *
                       static_cast<double>(s.model.heads * s.model.head_dim);
  return {{.name = "attention, forward",
           .flops = flops,
           .make = [=]() -> Call {
             return [heads = random_heads(s)]() { return std::vector{attend(heads)}; };
           }},
          {.name = "attention, backward", .flops = 2.5 * flops, .make = [=]() -> Call {
             const auto heads = random_heads(s);
             const auto y = attend(heads);
             return [heads, y, gradient = at::randn_like(y)]() {
               return torch::autograd::grad({y}, heads, {gradient}, /*retain_graph=*/true);
             };
           }}};
}

/// y = x weight^T.
struct Projection {
  std::string name;
  int64_t tokens, in, out;

  double flops() const { return 2.0 * static_cast<double>(tokens * in) * static_cast<double>(out); }
};

inline Row forward_row(const Sizes& s, const Projection& p, bool adds_to_stream) {
  return {.name = p.name + (adds_to_stream ? ", forward onto the stream" : ", forward"),
          .flops = p.flops(),
          .make = [=]() -> Call {
            const auto x = s.random({p.tokens, p.in}), weight = s.random({p.out, p.in});
            if (adds_to_stream) {
              return [=, stream = s.random({p.tokens, p.out})]() {
                return std::vector{reprise::ops::linear_add(x, weight, {}, stream)};
              };
            }
            return [=]() { return std::vector{reprise::ops::matmul(x, weight, {.b = true})}; };
          }};
}

inline Row input_row(const Sizes& s, const Projection& p) {
  return {.name = p.name + ", gradient of the input", .flops = p.flops(), .make = [=]() -> Call {
            const auto gradient = s.random({p.tokens, p.out}), weight = s.random({p.out, p.in});
            return [=]() { return std::vector{reprise::ops::matmul(gradient, weight)}; };
          }};
}

/// That of the head is summed over chunks in float32.
inline Row weight_row(const Sizes& s, const Projection& p, bool is_summed) {
  return {.name = p.name + (is_summed ? ", gradient of the weight, summed in float32"
                                      : ", gradient of the weight"),
          .flops = p.flops(),
          .make = [=]() -> Call {
            const auto gradient = s.random({p.tokens, p.out}), x = s.random({p.tokens, p.in});
            // On a CPU the sum has the dtype of its operands.
            const bool is_wide = is_summed && gradient.is_cuda();
            const auto type = is_wide ? at::kFloat : gradient.scalar_type();
            if (is_summed) {
              return [=, sum = at::zeros({p.out, p.in}, s.tensors.dtype(type))]() mutable {
                reprise::ops::add_matmul(sum, gradient, x, {.a = true});
                return std::vector<at::Tensor>();
              };
            }
            return [=]() { return std::vector{reprise::ops::matmul(gradient, x, {.a = true})}; };
          }};
}

inline std::vector<Row> product_rows(const Sizes& s) {
  const auto& m = s.model;
  const int64_t tokens = s.tokens(), width = m.heads * m.head_dim;
  std::vector<Row> rows;
  const auto add = [&](const Projection& p, bool adds_to_stream, bool is_summed) {
    rows.push_back(forward_row(s, p, adds_to_stream));
    rows.push_back(input_row(s, p));
    rows.push_back(weight_row(s, p, is_summed));
  };
  add({"qkv", tokens, m.hidden, s.all_heads() * m.head_dim}, false, false);
  add({"attention's output", tokens, width, m.hidden}, true, false);
  add({"gate_up", tokens, m.hidden, 2 * m.intermediate}, false, false);
  add({"down", tokens, m.intermediate, m.hidden}, true, false);
  add({"head", s.chunk(), m.hidden, m.vocabulary}, false, true);
  return rows;
}

}  // namespace gpu
