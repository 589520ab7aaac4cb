// The kernels of matrix products, with and without adapters, and of dropout, against their
// references in float64. Needs a GPU.
#include "ops/kernel_case.h"
#include "support/bitwise.h"

#include <array>
#include <tuple>
#include <vector>

namespace reprise::ops {
namespace {

using testing::expect_close;
using testing::kernel;
using testing::kTypes;
using testing::random_on_gpu;
using testing::wide;

class ProductKernels : public testing::KernelTest {};

TEST_F(ProductKernels, ProjectWithWeightsOfAnotherType) {
  const auto integers = [](at::IntArrayRef sizes, at::ScalarType type) {
    return torch::randint(-2, 3, sizes, at::device(at::kCUDA)).to(type);  // exact in every type
  };
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const auto x = integers({2, 33, 48}, type), weight = integers({40, 48}, at::kFloat);
    const auto bias = integers({40}, at::kFloat), stream = integers({2, 33, 40}, type);
    const auto expected = reference::linear(wide(x), wide(weight), wide(bias));
    poison();
    const auto y = kernel("reprise::linear", reference::linear).call(x, weight, bias);
    EXPECT_EQ(y.scalar_type(), type);
    expect_close(y, expected, "linear");
    expect_close(kernel("reprise::linear_add", reference::linear_add).call(x, weight, bias, stream),
                 expected + wide(stream),
                 "linear_add");
  }
}

TEST_F(ProductKernels, AdaptedLinearWithAdaptersOfAnotherType) {
  const auto op = kernel("reprise::adapted_linear", reference::adapted_linear);
  const auto integers = [](at::IntArrayRef sizes, at::ScalarType type) {
    return torch::randint(-2, 3, sizes, at::device(at::kCUDA)).to(type);  // exact in every type
  };
  const std::vector<int64_t> starts{0, 24};
  const std::vector<double> scales{2, 0.5};
  const auto seed = torch::full({1}, 7, at::device(at::kCUDA).dtype(at::kLong));
  for (const auto type : kTypes) {
    const auto x = integers({2, 33, 48}, type), weight = integers({40, 48}, type),
               stream = integers({2, 33, 40}, type);
    const std::vector<at::Tensor> a{integers({4, 48}, at::kFloat), integers({2, 48}, at::kFloat)};
    const std::vector<at::Tensor> b{integers({24, 4}, at::kFloat), integers({8, 2}, at::kFloat)};
    const std::vector<at::Tensor> wide_a{wide(a[0]), wide(a[1])}, wide_b{wide(b[0]), wide(b[1])};
    for (const double dropout : {0.0, 0.5}) {
      const auto drawn = dropout > 0 ? std::optional(seed) : std::nullopt;
      poison();
      const auto found =
          op.call(x, weight, std::nullopt, stream, a, b, starts, scales, dropout, drawn);
      const auto expected = op.call(wide(x),
                                    wide(weight),
                                    std::nullopt,
                                    wide(stream),
                                    wide_a,
                                    wide_b,
                                    starts,
                                    scales,
                                    dropout,
                                    drawn);
      EXPECT_EQ(found.scalar_type(), type);
      // The product and the low-rank rows are rounded before the sum is.
      EXPECT_LE(
          (wide(found) - expected).abs().max().item<double>() / expected.abs().max().item<double>(),
          type == at::kBFloat16 ? 0x1p-6 : 0x1p-8)
          << type << dropout;
    }
  }
}

TEST_F(ProductKernels, DropKeepsWhatTheCpuKeeps) {
  const auto op = kernel("reprise::drop_into_", reference::drop_into_);
  const auto seed = torch::full({1}, 1234567, at::device(at::kCUDA).dtype(at::kLong));
  for (const auto type : kTypes) {
    for (const auto out_type : {type, at::kFloat}) {
      for (const int64_t first : {0, 5, 16}) {
        const auto x = random_on_gpu({3, 1001}, type);
        for (const bool adds : {false, true}) {
          auto out = random_on_gpu({3, 1001}, out_type);
          auto expected = out.cpu();
          poison();
          op.call(out, x, seed, 0.3, first, adds);
          op.call(expected, x.cpu(), seed.cpu(), 0.3, first, adds);
          EXPECT_TRUE(at::equal(out.cpu(), expected)) << type << out_type << first << adds;
        }
      }
    }
  }
}

TEST_F(ProductKernels, LinearAdd) {
  const auto op = kernel("reprise::linear_add", reference::linear_add);
  for (const auto type : kTypes) {
    for (const auto& sizes :
         std::vector<std::vector<int64_t>>{{1, 1, 1}, {3, 7, 5}, {129, 64, 256}, {64, 2048, 512}}) {
      for (const bool has_bias : {false, true}) {
        const auto x =
            torch::randint(-2, 3, {2, sizes[0], sizes[1]}, at::device(at::kCUDA)).to(type);
        const auto weight =
            torch::randint(-1, 2, {sizes[2], sizes[1]}, at::device(at::kCUDA)).to(type);
        const auto stream =
            torch::randint(-9, 9, {2, sizes[0], sizes[2]}, at::device(at::kCUDA)).to(type);
        const auto bias = has_bias ? std::optional(random_on_gpu({sizes[2]}, type)) : std::nullopt;
        const auto before = stream.clone();
        poison();
        expect_close(op.call(x, weight, bias, stream),
                     reference::linear_add(wide(x),
                                           wide(weight),
                                           bias ? std::optional(wide(*bias)) : std::nullopt,
                                           wide(stream)),
                     c10::str(type, " ", sizes, has_bias ? " bias" : ""));
        EXPECT_TRUE(at::equal(stream, before));
      }
    }
  }
}

TEST_F(ProductKernels, ProductsInEveryLayout) {
  const auto op = kernel("reprise::product_", reference::product_);
  const auto integers = [](at::IntArrayRef sizes, at::ScalarType type) {
    return torch::randint(-2, 3, sizes, at::device(at::kCUDA)).to(type);  // exact in every type
  };
  for (const auto type : kTypes) {
    for (const auto out_type : {type, at::kFloat}) {
      for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{
               {1, 1, 1}, {3, 5, 7}, {64, 48, 80}, {129, 1, 33}, {1, 40, 24}}) {
        for (const int which : {0, 1, 2, 3}) {
          for (const bool adds : {false, true}) {
            const bool ta = which % 2 == 1, tb = which / 2 == 1;
            const auto a = ta ? integers({k, m}, type) : integers({m, k}, type);
            const auto b = tb ? integers({n, k}, type) : integers({k, n}, type);
            const auto room = integers({m, n + 8}, out_type);
            auto out = room.narrow(1, 0, n);
            auto expected = wide(out).clone();
            reference::product_(expected, wide(a), wide(b), ta, tb, adds);
            op.call(out, a, b, ta, tb, adds);
            expect_close(out, expected, c10::str(type, " ", m, " ", n, " ", k, " ", which, adds));
          }
        }
      }
    }
  }
}

TEST_F(ProductKernels, ProductsOfRowsThatOverlap) {
  const auto op = kernel("reprise::product_", reference::product_);
  const auto row = random_on_gpu({1, 24}, at::kBFloat16),
             b = random_on_gpu({24, 16}, at::kBFloat16);
  for (const auto& a :
       {row.expand({5, 24}), random_on_gpu({5, 1}, at::kBFloat16).expand({5, 24})}) {
    auto out = at::empty({5, 16}, row.options());
    op.call(out, a, b, false, false, false);
    expect_close(out, at::mm(wide(a), wide(b)), "expanded");
  }
}

}  // namespace
}  // namespace reprise::ops
