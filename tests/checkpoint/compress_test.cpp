// Decision::Compress: masks come back exactly, floating numbers within half a step of their block.
#include "checkpoint/offload/compressed.h"
#include "checkpoint/offload/placeholder.h"
#include "support/bitwise.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <limits>
#include <memory>
#include <vector>

namespace reprise::testing {
namespace {

using detail::Compressed;

at::Tensor round_trip(const at::Tensor& tensor) {
  return Compressed(tensor).restore(detail::placeholder_for(tensor));
}

TEST(CompressedBits, ComeBackExactlyInAnyShape) {
  torch::manual_seed(3);
  for (const int64_t size : {0, 1, 7, 8, 9, 255, 4096, 4099}) {
    const auto mask = torch::rand({size}) > 0.5;
    EXPECT_TRUE(bitwise_equal(mask, round_trip(mask))) << size;
    EXPECT_EQ(Compressed(mask).bytes(), static_cast<size_t>(size / 8 + size % 8));
  }
  const auto mask = torch::rand({3, 5, 7}) > 0.5;
  for (const auto& strided : {mask.permute({2, 0, 1}), mask[1], mask[2].t()}) {
    const auto back = round_trip(strided);
    EXPECT_TRUE(bitwise_equal(strided, back));
    EXPECT_EQ(strided.strides(), back.strides());
  }
}

TEST(CompressedInt8, IsWithinHalfAStepOfItsBlock) {
  torch::manual_seed(3);
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    for (const int64_t size : {1, 255, 256, 257, 10000}) {
      // Blocks of very different magnitude.
      const auto exact = (torch::randn({size}, at::kDouble) *
                          torch::pow(10.0, torch::arange(size).div(256, "floor") % 4 - 2))
                             .to(dtype);
      const auto back = round_trip(exact);
      EXPECT_EQ(back.scalar_type(), dtype);
      // The result is rounded to its type besides.
      const double rounding = dtype == at::kBFloat16 ? 0.004 : dtype == at::kHalf ? 0.0005 : 1e-6;
      for (int64_t begin = 0; begin < size; begin += detail::kQuantizedBlock) {
        const auto block = exact.slice(0, begin, begin + detail::kQuantizedBlock).to(at::kDouble);
        const auto error =
            (block - back.slice(0, begin, begin + detail::kQuantizedBlock)).abs().max();
        const auto largest = block.abs().max().item<double>();
        EXPECT_LE(error.item<double>(), largest * (0.5 / 127 + rounding)) << dtype << " " << begin;
      }
      EXPECT_TRUE(bitwise_equal(back, round_trip(exact)));
    }
  }
}

TEST(CompressedInt8, KeepsZerosAndDoesNotMendWhatIsNotFinite) {
  EXPECT_TRUE(bitwise_equal(torch::zeros({300}), round_trip(torch::zeros({300}))));
  for (const double bad : {std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN()}) {
    auto values = torch::ones({1024});
    values[300] = bad;
    const auto back = round_trip(values);
    EXPECT_TRUE(back.slice(0, 256, 512).isnan().all().item<bool>());
    EXPECT_TRUE(torch::equal(back.slice(0, 0, 256), torch::ones({256})));
    EXPECT_TRUE(torch::equal(back.slice(0, 512), torch::ones({512})));
  }
}

TEST(Compressed, KnowsWhatItCannotDo) {
  EXPECT_EQ(Compressed::form_of(torch::ones({4}, at::kLong)), Compressed::Form::None);
  EXPECT_EQ(Compressed::form_of(torch::ones({4}, at::kComplexFloat)), Compressed::Form::None);
  EXPECT_EQ(Compressed::form_of(torch::ones({1}).expand({4})), Compressed::Form::None);
  EXPECT_EQ(Compressed::form_of(torch::ones({4}, at::kBool)), Compressed::Form::Bits);
  EXPECT_EQ(Compressed::form_of(torch::ones({4}, at::kHalf)), Compressed::Form::Int8);
}

struct Run {
  at::Tensor loss, gradient;
  RegionStats stats;
};

/// A step over a region; null options: plainly.
Run run(const Fn& fn, const CheckpointOptions* options) {
  record_checkpoint_stats(true);
  reset_checkpoint_stats();
  const auto x = torch::linspace(-2, 2, 1 << 18).view({512, 512}).requires_grad_();
  Run result;
  result.loss = (options != nullptr ? checkpoint(*options, fn, x) : fn(x)).square().mean();
  result.gradient = torch::autograd::grad({result.loss}, {x})[0];
  result.stats = checkpoint_stats().total;
  record_checkpoint_stats(false);
  return result;
}

std::shared_ptr<const Policy> compress(const std::string& name) {
  return policy::from(
      [name](const OpContext& op) {
        return op.name == name ? Decision::Compress : Decision::Recompute;
      },
      "compress");
}

TEST(Compress, MasksAreAnEighthAndGradientsTheSame) {
  const Fn fn = [](at::Tensor x) {
    const auto mask = x.sin() > 0.1;
    return at::where(mask, x.exp(), x.cos());
  };
  const auto plain = run(fn, nullptr);
  const CheckpointOptions options{.policy = compress("aten::gt")};
  const auto ours = run(fn, &options);
  EXPECT_TRUE(bitwise_equal(plain.loss, ours.loss));
  EXPECT_TRUE(bitwise_equal(plain.gradient, ours.gradient));
  EXPECT_EQ(ours.stats.bytes_compressed, size_t{1} << 18);
  EXPECT_EQ(ours.stats.bytes_compressed_to, size_t{1} << 15);
  EXPECT_EQ(ours.stats.bytes_kept, size_t{1} << 15);
  EXPECT_EQ(ours.stats.ops_replayed, 1U);
}

TEST(Compress, OtherTypesNeedPermissionAndThenStayNear) {
  const Fn fn = [](at::Tensor x) { return x.sin().tanh().exp(); };
  CheckpointOptions options{.policy = compress("aten::tanh")};
  const auto message = message_of<CheckpointError>([&] { run(fn, &options); });
  EXPECT_TRUE(contains(message, "aten::tanh"));
  EXPECT_TRUE(contains(message, "allow_lossy"));
  options.allow_lossy = true;
  const auto plain = run(fn, nullptr);
  const auto ours = run(fn, &options);
  EXPECT_TRUE(bitwise_equal(plain.loss, ours.loss));  // forward used the exact values
  EXPECT_FALSE(torch::equal(plain.gradient, ours.gradient));
  EXPECT_TRUE(torch::allclose(plain.gradient, ours.gradient, 0.05, 1e-7));
  EXPECT_EQ(ours.stats.bytes_compressed, size_t{1} << 20);
  EXPECT_EQ(ours.stats.bytes_compressed_to, (size_t{1} << 18) + (size_t{1} << 10) * 4);
}

TEST(Compress, IntegersAreRefusedByName) {
  const CheckpointOptions exact{.policy = compress("aten::floor_divide"), .allow_lossy = true};
  const auto message = message_of<CheckpointError>([&] {
    run(
        [](at::Tensor x) {
          const auto index = at::floor_divide(at::arange(512), at::full({512}, 2, at::kLong));
          return x.index_select(0, index).exp();
        },
        &exact);
  });
  EXPECT_TRUE(contains(message, "none of its results is bool or floating"));
  EXPECT_TRUE(contains(message, "aten::floor_divide"));
}

TEST(Compress, OfSeveralResultsTheOthersStayAsTheyAre) {
  const Fn fn = [](at::Tensor x) {
    const auto [y, mask] = at::native_dropout(x.sin(), 0.5, /*train=*/true);
    return y.exp();
  };
  const auto step = [&](const CheckpointOptions* options) {
    torch::manual_seed(5);
    return run(fn, options);
  };
  const auto plain = step(nullptr);
  const CheckpointOptions options{.policy = compress("aten::native_dropout")};
  const auto ours = step(&options);
  EXPECT_TRUE(bitwise_equal(plain.gradient, ours.gradient));
  EXPECT_EQ(ours.stats.bytes_compressed, size_t{1} << 18);
  EXPECT_EQ(ours.stats.bytes_not_moved, size_t{1} << 20);
}

}  // namespace
}  // namespace reprise::testing
