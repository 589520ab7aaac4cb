// Every kernel against its reference in float64 on the same values, over types, odd and large
// sizes and strides. Memory is poisoned first, so that nothing may stay unwritten. Needs a GPU.
// Those of matrix products are in product_kernels_test.cpp.
#include "ops/kernel_case.h"
#include "support/bitwise.h"

#include <array>
#include <limits>
#include <tuple>
#include <vector>

namespace reprise::ops {
namespace {

using testing::expect_close;
using testing::kernel;
using testing::kTypes;
using testing::random_on_gpu;
using testing::wide;

class Kernels : public testing::KernelTest {};

const std::vector<std::vector<int64_t>> kRowShapes{{1, 3},
                                                   {3, 7},
                                                   {2, 3, 64},
                                                   {5, 576},
                                                   {129, 2048},
                                                   {1000, 4096},
                                                   {7, 5120},
                                                   {33, 8192},
                                                   {3, 16384},
                                                   {9, 1001},
                                                   {4, 20000}};

TEST_F(Kernels, RmsNorm) {
  const auto op = kernel("reprise::rms_norm", reference::rms_norm);
  for (const auto type : kTypes) {
    for (const auto weight_type : {type, at::kFloat}) {
      for (const auto& sizes : kRowShapes) {
        const auto x = random_on_gpu(sizes, type),
                   weight = random_on_gpu({sizes.back()}, weight_type);
        const double offset = weight_type == type ? 0 : 1;
        poison();
        const auto [normed, scale] = op.call(x, weight, 1e-5, offset);
        const auto [expected, expected_scale] =
            reference::rms_norm(wide(x), wide(weight), 1e-5, offset);
        const auto what = c10::str(type, " ", weight_type, " ", sizes);
        expect_close(normed, expected, what);
        expect_close(scale, expected_scale, what);
      }
    }
  }
}

TEST_F(Kernels, RmsNormOfRowsThatAreNotAligned) {
  const auto op = kernel("reprise::rms_norm", reference::rms_norm);
  const auto x =
      random_on_gpu({65, 2049}, at::kBFloat16).flatten().narrow(0, 1, 64 * 2048).view({64, 2048});
  const auto weight = random_on_gpu({2049}, at::kBFloat16).narrow(0, 1, 2048);
  const auto normed = std::get<0>(op.call(x, weight, 1e-5, 0));
  expect_close(normed, std::get<0>(reference::rms_norm(wide(x), wide(weight), 1e-5)), "offset");
}

TEST_F(Kernels, RmsNormBackward) {
  const auto op = kernel("reprise::rms_norm_backward", reference::rms_norm_backward);
  for (const auto type : kTypes) {
    for (const auto& sizes : kRowShapes) {
      for (const bool has_stream : {true, false}) {
        const auto x = random_on_gpu(sizes, type), weight = random_on_gpu({sizes.back()}, type);
        const auto gradient = random_on_gpu(sizes, type);
        const auto stream = has_stream ? std::optional(random_on_gpu(sizes, type)) : std::nullopt;
        const auto exact_scale = std::get<1>(reference::rms_norm(wide(x), wide(weight), 1e-5));
        const double offset = has_stream ? 1 : 0;
        poison();
        const auto [for_x, for_weight] =
            op.call(gradient, stream, x, weight, exact_scale.to(at::kFloat), has_stream, offset);
        const auto [expected_x, expected_weight] =
            reference::rms_norm_backward(wide(gradient),
                                         stream ? std::optional(wide(*stream)) : std::nullopt,
                                         wide(x),
                                         wide(weight),
                                         exact_scale,
                                         true,
                                         offset);
        const auto what = c10::str(type, " ", sizes, has_stream ? " stream" : "");
        expect_close(for_x, expected_x, what);
        EXPECT_EQ(for_weight.defined(), has_stream);
        if (has_stream) {
          expect_close(for_weight, expected_weight, "weight " + what);
        }
      }
    }
  }
}

TEST_F(Kernels, RmsNormBackwardTwiceGivesTheSameBits) {
  const auto op = kernel("reprise::rms_norm_backward", reference::rms_norm_backward);
  const auto x = random_on_gpu({4096, 2048}, at::kBFloat16),
             weight = random_on_gpu({2048}, at::kBFloat16);
  const auto gradient = random_on_gpu({4096, 2048}, at::kBFloat16);
  const auto scale = std::get<1>(reference::rms_norm(x, weight, 1e-5));
  const auto once = op.call(gradient, std::nullopt, x, weight, scale, true, 0);
  const auto twice = op.call(gradient, std::nullopt, x, weight, scale, true, 0);
  EXPECT_TRUE(testing::bitwise_equal(std::get<0>(once), std::get<0>(twice)));
  EXPECT_TRUE(testing::bitwise_equal(std::get<1>(once), std::get<1>(twice)));
}

TEST_F(Kernels, Gated) {
  const auto op = kernel("reprise::gated", reference::gated);
  const auto back = kernel("reprise::gated_backward", reference::gated_backward);
  for (const auto type : kTypes) {
    for (const int64_t activation : {0, 1, 2, 3, 4}) {
      for (const auto& sizes : std::vector<std::vector<int64_t>>{
               {1, 2}, {3, 14}, {2, 3, 64}, {129, 4096}, {1000, 2 * 8192}, {7, 2 * 1001}}) {
        const auto both = random_on_gpu(sizes, type) * 3;
        auto half = sizes;
        half.back() /= 2;
        const auto gradient = random_on_gpu(half, type);
        poison();
        const auto what = c10::str(type, " ", activation, " ", sizes);
        expect_close(op.call(both, activation), reference::gated(wide(both), activation), what);
        expect_close(back.call(gradient, both, activation),
                     reference::gated_backward(wide(gradient), wide(both), activation),
                     "backward " + what);
      }
    }
  }
}

struct RopeKernelCase {
  int64_t batch, length, heads, kv_heads, head_dim, rotary_dims;
};

TEST_F(Kernels, QkvRope) {
  const auto op = kernel("reprise::qkv_rope", reference::qkv_rope);
  const auto back = kernel("reprise::qkv_rope_backward", reference::qkv_rope_backward);
  for (const auto type : kTypes) {
    for (const auto& c : {RopeKernelCase{1, 1, 1, 1, 2, 2},
                          RopeKernelCase{2, 5, 3, 1, 6, 4},
                          RopeKernelCase{2, 33, 4, 2, 64, 64},
                          RopeKernelCase{2, 17, 8, 8, 128, 64},
                          RopeKernelCase{1, 300, 32, 8, 64, 64},
                          RopeKernelCase{3, 9, 4, 4, 80, 20}}) {
      for (const bool interleaved : {false, true}) {
        for (const bool per_batch : {false, true}) {
          const int64_t in = 16, out = (c.heads + 2 * c.kv_heads) * c.head_dim;
          // The product is exact in every type: small integers.
          const auto x =
              torch::randint(-2, 3, {c.batch, c.length, in}, at::device(at::kCUDA)).to(type);
          const auto weight = torch::randint(-2, 3, {out, in}, at::device(at::kCUDA)).to(type);
          const auto angles =
              random_on_gpu({per_batch ? c.batch : 1, 1, c.length, c.rotary_dims / 2}, at::kFloat);
          const auto cos = angles.cos(), sin = angles.sin();
          poison();
          const auto found = op.call(x,
                                     weight,
                                     std::nullopt,
                                     cos,
                                     sin,
                                     c.heads,
                                     c.kv_heads,
                                     c.rotary_dims,
                                     interleaved,
                                     {},
                                     {},
                                     {},
                                     {},
                                     0,
                                     std::nullopt);
          const auto expected = reference::qkv_rope(wide(x),
                                                    wide(weight),
                                                    std::nullopt,
                                                    wide(cos),
                                                    wide(sin),
                                                    c.heads,
                                                    c.kv_heads,
                                                    c.rotary_dims,
                                                    interleaved,
                                                    {},
                                                    {},
                                                    {},
                                                    {},
                                                    0,
                                                    std::nullopt);
          const auto what =
              c10::str(type, " ", c.head_dim, " ", c.rotary_dims, interleaved, per_batch);
          expect_close(std::get<0>(found), std::get<0>(expected), "query " + what);
          expect_close(std::get<1>(found), std::get<1>(expected), "key " + what);
          expect_close(std::get<2>(found), std::get<2>(expected), "value " + what);

          // Gradients as attention gives them: heads outside, or tokens outside.
          const auto q = random_on_gpu({c.batch, c.heads, c.length, c.head_dim}, type);
          const auto k =
              random_on_gpu({c.batch, c.length, c.kv_heads, c.head_dim}, type).transpose(1, 2);
          const auto v = random_on_gpu({c.batch, c.kv_heads, c.length, c.head_dim}, type);
          poison();
          expect_close(
              back.call(q, k, v, cos, sin, c.rotary_dims, interleaved),
              reference::qkv_rope_backward(
                  wide(q), wide(k), wide(v), wide(cos), wide(sin), c.rotary_dims, interleaved),
              "backward " + what);
        }
      }
    }
  }
}

TEST_F(Kernels, Rope) {
  const auto op = kernel("reprise::rope", reference::rope);
  for (const auto type : kTypes) {
    for (const auto& c : {RopeKernelCase{1, 1, 1, 1, 2, 2},
                          RopeKernelCase{2, 5, 3, 1, 6, 4},
                          RopeKernelCase{2, 33, 4, 2, 64, 64},
                          RopeKernelCase{3, 9, 4, 4, 80, 20}}) {
      const auto angles = random_on_gpu({c.batch, 1, c.length, c.rotary_dims / 2}, at::kFloat);
      const auto cos = angles.cos(), sin = angles.sin();
      const auto product = random_on_gpu({c.batch, c.length, c.heads, 3 * c.head_dim}, type);
      // As norms leave them, as attention leaves gradients, and as a part of a product.
      for (const auto& x :
           {random_on_gpu({c.batch, c.length, c.heads, c.head_dim}, type).transpose(1, 2),
            random_on_gpu({c.batch, c.heads, c.length, c.head_dim}, type),
            product.narrow(-1, c.head_dim, c.head_dim).transpose(1, 2)}) {
        for (const int which : {0, 1, 2, 3}) {
          const bool interleaved = which % 2 == 1, back = which / 2 == 1;
          poison();
          expect_close(
              op.call(x, cos, sin, c.rotary_dims, interleaved, back),
              reference::rope(wide(x), wide(cos), wide(sin), c.rotary_dims, interleaved, back),
              c10::str(type, " ", c.head_dim, " ", x.strides(), " ", which));
        }
      }
    }
  }
}

struct Logits {
  at::Tensor logits, targets;
};

// The last logit of a row is -inf, and the first target the most probable.
Logits random_logits(int64_t rows, int64_t width, at::ScalarType type) {
  auto logits = random_on_gpu({rows, width}, type) * 4;
  logits.select(1, width - 1).fill_(-std::numeric_limits<double>::infinity());
  if (width == 1) {
    logits.zero_();
  }
  const auto targets = torch::randint(
      0, std::max<int64_t>(1, width - 1), {rows}, at::device(at::kCUDA).dtype(at::kLong));
  targets[0] = logits[0].argmax();
  return {logits, targets};
}

TEST_F(Kernels, CrossEntropy) {
  const auto op = kernel("reprise::cross_entropy_", reference::cross_entropy_);
  for (const auto type : kTypes) {
    for (const auto& [rows, width] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 1}, {3, 7}, {17, 1001}, {5, 32000}, {200, 49152}, {150, 128256}, {3, 151936}}) {
      for (const bool weighted : {false, true}) {
        auto [logits, targets] = random_logits(rows, width, type);
        auto exact = wide(logits);
        const auto expected = reference::cross_entropy_(exact, targets, weighted);
        poison();
        const auto found = op.call(logits, targets, weighted);
        const auto what = c10::str(type, " ", rows, " ", width, weighted ? " weighted" : "");
        expect_close(logits, exact, "gradient " + what);
        expect_close(std::get<0>(found), std::get<0>(expected), "losses " + what);
        EXPECT_TRUE(at::allclose(wide(std::get<1>(found)), std::get<1>(expected), 1e-5, 1e-5))
            << what;
        EXPECT_TRUE(at::equal(wide(std::get<2>(found)), std::get<2>(expected))) << what;
      }
    }
  }
}

TEST_F(Kernels, TokenSumsAndSlopes) {
  const auto sums = kernel("reprise::token_sums", reference::token_sums);
  const auto slopes = kernel("reprise::token_slopes_", reference::token_slopes_);
  for (const auto type : kTypes) {
    for (const auto& [rows, width] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 1}, {3, 7}, {17, 1001}, {5, 32000}, {150, 128256}, {3, 151936}}) {
      for (const double scale : {1.0, 0.7}) {
        auto [logits, targets] = random_logits(rows, width, type);
        const auto before = logits.clone();
        const auto what = c10::str(type, " ", rows, " ", width, " ", scale);
        const auto expected = reference::token_sums(wide(logits), targets, scale, true);
        poison();
        const auto found = sums.call(logits, targets, scale, true);
        EXPECT_TRUE(at::equal(logits, before)) << what;
        const auto expect_number = [&](const at::Tensor& a, const at::Tensor& b, const char* name) {
          EXPECT_TRUE(at::allclose(wide(a), b, 1e-5, 1e-5)) << name << " " << what;
        };
        expect_number(std::get<0>(found), std::get<0>(expected), "logprobs");
        expect_number(std::get<1>(found), std::get<1>(expected), "log sums");
        expect_number(std::get<2>(found), std::get<2>(expected), "entropies");
        EXPECT_TRUE(at::equal(wide(std::get<3>(found)), std::get<3>(expected))) << what;

        const auto a = random_on_gpu({rows}, at::kFloat), b = random_on_gpu({rows}, at::kFloat);
        for (const int which : {1, 2, 3}) {
          const auto grad = which % 2 == 1 ? std::optional(a) : std::nullopt;
          const auto grad_entropy = which / 2 == 1 ? std::optional(b) : std::nullopt;
          auto exact = wide(logits), made = logits.clone();
          reference::token_slopes_(exact,
                                   targets,
                                   std::get<1>(expected),
                                   std::get<2>(expected),
                                   grad,
                                   grad_entropy,
                                   scale);
          slopes.call(
              made, targets, std::get<1>(found), std::get<2>(found), grad, grad_entropy, scale);
          // log p + H may cancel; what float32 rounds in either of them does not.
          const double roundoff = type == at::kBFloat16 ? 0x1p-8
                                  : type == at::kHalf   ? 0x1p-10
                                                        : 2e-6;
          const auto most = exact.abs().max().item<double>();
          EXPECT_LE((wide(made) - exact).abs().max().item<double>(), roundoff * most + 1e-5)
              << "slopes " << which << " " << what;
        }
      }
    }
  }
}

TEST_F(Kernels, ScaleAndAddRoundOnce) {
  const auto scale = kernel("reprise::scale_into_", reference::scale_into_);
  const auto add = kernel("reprise::add_rounded", reference::add_rounded);
  const auto factor = torch::full({}, 1.0 / 16376, at::device(at::kCUDA).dtype(at::kFloat));
  for (const auto type : kTypes) {
    for (const auto other : {type, at::kFloat}) {
      for (const int64_t count : {1, 7, 8, 2049, 100003}) {
        const auto values = random_on_gpu({count}, other), x = random_on_gpu({count}, type);
        auto out = at::empty({count}, x.options());
        poison();
        scale.call(out, values, factor);
        EXPECT_TRUE(at::equal(out, (values.to(at::kFloat) * factor).to(type))) << type << count;
        EXPECT_TRUE(at::equal(add.call(x, values), (x.to(at::kFloat) + values).to(type)));
      }
    }
  }
}

TEST_F(Kernels, GatedBackwardInPlaceIsTheSame) {
  const auto in_place = kernel("reprise::gated_backward_", reference::gated_backward_);
  const auto back = kernel("reprise::gated_backward", reference::gated_backward);
  const auto forward = kernel("reprise::gated", reference::gated);
  auto both = random_on_gpu({33, 2 * 1000}, at::kBFloat16),
       gradient = random_on_gpu({33, 1000}, at::kBFloat16);
  const auto expected = back.call(gradient, both, 0), y = forward.call(both, 0);
  in_place.call(gradient, both, 0);
  EXPECT_TRUE(testing::bitwise_equal(both, expected));
  EXPECT_TRUE(testing::bitwise_equal(gradient, y));
}

TEST_F(Kernels, TakeNoRows) {
  const auto empty = at::empty({0, 64}, at::device(at::kCUDA).dtype(at::kBFloat16));
  const auto weight = random_on_gpu({64}, at::kBFloat16),
             matrix = random_on_gpu({64, 64}, at::kBFloat16);
  EXPECT_EQ(
      std::get<0>(kernel("reprise::rms_norm", reference::rms_norm).call(empty, weight, 1e-5, 0))
          .numel(),
      0);
  EXPECT_EQ(kernel("reprise::gated", reference::gated).call(empty, 0).numel(), 0);
  EXPECT_EQ(kernel("reprise::linear_add", reference::linear_add)
                .call(empty, matrix, std::nullopt, empty)
                .numel(),
            0);
}

}  // namespace
}  // namespace reprise::ops
