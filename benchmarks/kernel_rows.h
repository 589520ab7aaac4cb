// The memory-bound rows of bench_kernels: Reprise's kernels with the sizes of a model's step.
//
// `bytes` is what a call must move at least: every input read once, every result written once.
#pragma once

#include "gpu_model.h"
#include "kernel_timer.h"

#include "ops/add_rounded.h"
#include "ops/cross_entropy.h"
#include "ops/gated.h"
#include "ops/linear/qkv_rope.h"
#include "ops/operator.h"
#include "ops/reference.h"
#include "ops/scale.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

namespace gpu {

struct Row {
  std::string name;
  int64_t bytes = 0;  ///< 0 for a product, which is rated by flops
  double flops = 0;
  std::function<Call()> make;
  std::string kernel = "";  ///< part of the kernel's name, if the operator launches others too
};

/// The sizes of a model's step.
struct Sizes {
  Shape model;
  int64_t batch, seq;
  at::TensorOptions tensors;

  int64_t tokens() const { return batch * seq; }
  int64_t all_heads() const { return model.heads + 2 * model.kv_heads; }
  int64_t chunk() const { return std::min<int64_t>(tokens(), 2048); }  // the head's, of 128k words
  at::Tensor random(at::IntArrayRef sizes) const { return at::randn(sizes, tensors).mul_(0.1); }
  at::Tensor table() const {
    return at::randn({1, 1, seq, model.head_dim / 2}, tensors.dtype(at::kFloat));
  }
};

inline constexpr int64_t kNarrow = 2;  // bytes of a bfloat16
inline constexpr int64_t kWide = 4;
inline constexpr double kEpsilon = 1e-5;

inline std::vector<Row> norm_rows(const Sizes& s) {
  namespace reference = reprise::ops::reference;
  using reprise::ops::find_operator;
  const int64_t values = s.tokens() * s.model.hidden, scales = s.tokens() * kWide;
  const auto rows = [s] { return s.random({s.tokens(), s.model.hidden}); };
  const auto forward = find_operator<decltype(reference::rms_norm)>("reprise::rms_norm");
  const auto backward =
      find_operator<decltype(reference::rms_norm_backward)>("reprise::rms_norm_backward");
  return {{.name = "rms_norm, forward",
           .bytes = 2 * values * kNarrow + scales,
           .make = [=]() -> Call {
             return [=, x = rows(), weight = s.random({s.model.hidden})]() {
               auto [normed, scale] = forward.call(x, weight, kEpsilon, /*offset=*/0);
               return std::vector{normed, scale};
             };
           }},
          {.name = "rms_norm, backward with stream and weight",
           .bytes = 4 * values * kNarrow + scales,
           .make = [=]() -> Call {
             const auto x = rows(), weight = s.random({s.model.hidden});
             const auto scale = std::get<1>(forward.call(x, weight, kEpsilon, /*offset=*/0));
             return [=, gradient = rows(), stream = rows()]() {
               auto [for_x, for_weight] =
                   backward.call(gradient, stream, x, weight, scale, /*needs_weight=*/true, 0);
               return std::vector{for_x, for_weight};
             };
           }}};
}

inline std::vector<Row> gated_rows(const Sizes& s) {
  namespace reference = reprise::ops::reference;
  const int64_t width = s.model.intermediate, values = s.tokens() * width;
  const auto both = [=] { return s.random({s.tokens(), 2 * width}); };
  const auto backward =
      reprise::ops::find_operator<decltype(reference::gated_backward_)>("reprise::gated_backward_");
  const auto silu = reprise::Activation::Silu;
  return {
      {.name = "gated, forward",
       .bytes = 3 * values * kNarrow,
       .make = [=]() -> Call {
         return [=, x = both()]() { return std::vector{reprise::ops::gated(x, silu)}; };
       }},
      {.name = "gated, backward in place", .bytes = 6 * values * kNarrow, .make = [=]() -> Call {
         return [=, x = both(), gradient = s.random({s.tokens(), width})]() mutable {
           backward.call(gradient, x, static_cast<int64_t>(silu));
           return std::vector<at::Tensor>();
         };
       }}};
}

inline std::vector<Row> rope_rows(const Sizes& s) {
  namespace reference = reprise::ops::reference;
  const auto& m = s.model;
  const int64_t head_values = s.tokens() * m.head_dim, tables = s.seq * m.head_dim * kWide;
  const auto backward = reprise::ops::find_operator<decltype(reference::qkv_rope_backward)>(
      "reprise::qkv_rope_backward");
  // With the layout of attention's backward.
  const auto gradient = [s](int64_t heads) {
    return s.random({s.batch, s.seq, heads, s.model.head_dim}).transpose(1, 2);
  };
  return {
      {.name = "rope, forward in place after its product",
       .bytes = 2 * (m.heads + m.kv_heads) * head_values * kNarrow + tables,
       .make = [=]() -> Call {
         const auto x = s.random({s.batch, s.seq, m.hidden});
         const auto weight = s.random({s.all_heads() * m.head_dim, m.hidden});
         return [=, cos = s.table(), sin = s.table()]() {
           const auto heads = reprise::ops::qkv_rope(x,
                                                     weight,
                                                     {},
                                                     {},
                                                     cos,
                                                     sin,
                                                     {.heads = m.heads,
                                                      .kv_heads = m.kv_heads,
                                                      .head_dim = m.head_dim,
                                                      .rotary_dims = m.head_dim,
                                                      .interleaved = false});
           return std::vector{heads.query};
         };
       },
       .kernel = "rope"},
      {.name = "rope, backward",
       .bytes = 2 * s.all_heads() * head_values * kNarrow + tables,
       .make = [=]() -> Call {
         const auto q = gradient(m.heads), k = gradient(m.kv_heads), v = gradient(m.kv_heads);
         return [=, cos = s.table(), sin = s.table()]() {
           return std::vector{backward.call(q, k, v, cos, sin, m.head_dim, /*interleaved=*/false)};
         };
       }}};
}

inline std::vector<Row> other_rows(const Sizes& s) {
  const auto& m = s.model;
  const auto wide = s.tensors.dtype(at::kFloat);
  return {{.name = "cross_entropy_",
           .bytes = 2 * s.chunk() * m.vocabulary * kNarrow,
           .make = [=]() -> Call {
             const auto targets =
                 at::randint(m.vocabulary, {s.chunk()}, s.tensors.dtype(at::kLong));
             return [=, logits = s.random({s.chunk(), m.vocabulary})]() mutable {
               return std::vector{
                   reprise::ops::cross_entropy_(logits, targets, /*weighted=*/false).losses};
             };
           }},
          {.name = "scale_into_, float32 to bfloat16",
           .bytes = m.vocabulary * m.hidden * (kWide + kNarrow),
           .make = [=]() -> Call {
             const auto sums = at::randn({m.vocabulary, m.hidden}, wide);
             const auto factor = at::full({}, 0.5, wide);
             return [=, out = s.random({m.vocabulary, m.hidden})]() mutable {
               reprise::ops::scale_into(out, sums, factor);
               return std::vector<at::Tensor>();
             };
           }},
          {.name = "add_rounded, float32 onto bfloat16",
           .bytes = s.tokens() * m.hidden * (kNarrow + kWide + kNarrow),
           .make = [=]() -> Call {
             const auto added = at::randn({s.tokens(), m.hidden}, wide);
             return [=, x = s.random({s.tokens(), m.hidden})]() {
               return std::vector{reprise::ops::add_rounded(x, added)};
             };
           }}};
}

}  // namespace gpu
