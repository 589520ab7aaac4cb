// The law: loss, gradients, buffers and random state are the same to the last bit under every
// memory mode.
#include "support/zoo.h"
#include "support/bitwise.h"
#include "support/devices.h"

#include <gtest/gtest.h>

#include <tuple>

namespace reprise::testing {
namespace {

struct ZooStep {
  at::Tensor loss;
  std::vector<at::Tensor> gradients;
  std::vector<at::Tensor> buffers;
  at::Tensor next_random;  // what the generator gives after the step
};

using Parameters = std::tuple<size_t, size_t, at::ScalarType, c10::DeviceType>;

class ZooTest : public ::testing::TestWithParam<Parameters> {
 protected:
  void SetUp() override {
    if (std::get<3>(GetParam()) == c10::kCUDA) {
      REPRISE_REQUIRE_CUDA();
    }
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
    at::globalContext().setBenchmarkCuDNN(false);
  }
  void TearDown() override { at::globalContext().setDeterministicAlgorithms(false, false); }

  /// Two training steps from the same start, so that state carried from one to the next counts too.
  static std::vector<ZooStep> train(const ZooEntry& entry,
                                    const RegionRunner& region,
                                    at::ScalarType dtype,
                                    c10::DeviceType device) {
    torch::manual_seed(11);
    auto model = entry.make();
    auto x = model->input();
    model->to(device, dtype);
    x = x.to(device, dtype).set_requires_grad(true);
    std::vector<ZooStep> steps(2);
    for (auto& step : steps) {
      model->zero_grad();
      x.mutable_grad() = at::Tensor();
      step.loss = model->loss(x, region);
      step.loss.backward();
      step.gradients.push_back(x.grad().clone());
      for (const auto& parameter : model->parameters()) {
        step.gradients.push_back(parameter.grad().clone());
        torch::NoGradGuard no_grad;
        parameter.sub_(parameter.grad() * 0.1);
      }
      for (const auto& buffer : model->buffers()) {
        step.buffers.push_back(buffer.clone());
      }
      step.next_random = torch::rand({4}, torch::TensorOptions(device));
    }
    return steps;
  }
};

TEST_P(ZooTest, IsBitwiseEqualToPlain) {
  const auto [entry_index, mode_index, dtype, device] = GetParam();
  const auto entry = zoo()[entry_index];
  const auto mode = memory_modes()[mode_index];
  if ((mode.needs_matmul && !entry.has_matmul) || (mode.needs_attention && !entry.has_attention)) {
    GTEST_SKIP() << "the policy would match nothing, which is an error by design";
  }
  if (entry.float_only && dtype != at::kFloat) {
    GTEST_SKIP() << "autocast takes float32 parameters";
  }
  if (mode.is_reentrant && entry.shares_weights) {
    GTEST_SKIP() << "see ReentrantSumsSharedWeightsInAnotherOrder";
  }
  if (mode.is_reentrant && entry.differs_without_grad) {
    GTEST_SKIP() << "see ReentrantLstmEqualsItsOwnNoGradForward";
  }
  if (device == c10::kCUDA && entry.name == "Transformer" && dtype == at::kDouble &&
      mode.needs_attention) {
    GTEST_SKIP() << "no fused attention for float64 on CUDA";
  }
  const auto plain = train(entry, memory_modes()[0].run, dtype, device);
  const auto ours = train(entry, mode.run, dtype, device);
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(plain[i].loss, ours[i].loss)) << "loss of step " << i;
    EXPECT_TRUE(bitwise_equal(plain[i].next_random, ours[i].next_random))
        << "random state of step " << i;
    expect_bitwise_equal(plain[i].gradients, ours[i].gradients);
    expect_bitwise_equal(plain[i].buffers, ours[i].buffers);
  }
}

std::string name_of(const ::testing::TestParamInfo<Parameters>& info) {
  const auto [entry, mode, dtype, device] = info.param;
  return zoo()[entry].name + "_" + memory_modes()[mode].name + "_" + c10::toString(dtype) + "_" +
         c10::DeviceTypeName(device);
}

INSTANTIATE_TEST_SUITE_P(Cpu,
                         ZooTest,
                         ::testing::Combine(::testing::Range<size_t>(0, zoo().size()),
                                            ::testing::Range<size_t>(0, memory_modes().size()),
                                            ::testing::Values(at::kFloat, at::kDouble),
                                            ::testing::Values(c10::kCPU)),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Gpu,
                         ZooTest,
                         ::testing::Combine(::testing::Range<size_t>(0, zoo().size()),
                                            ::testing::Range<size_t>(0, memory_modes().size()),
                                            ::testing::Values(at::kFloat, at::kDouble),
                                            ::testing::Values(c10::kCUDA)),
                         name_of);

// Each region's backward adds to .grad by itself, so weights shared between regions sum in another
// order than in plain autograd, which adds up before it touches .grad. PyTorch's reentrant variant
// does the same.
TEST(ReentrantZoo, ReentrantSumsSharedWeightsInAnotherOrder) {
  const auto gradients = [](const RegionRunner& region) {
    torch::manual_seed(11);
    auto model = std::make_shared<SharedWeights>();
    auto x = model->input().set_requires_grad(true);
    const auto loss = model->loss(x, region);
    loss.backward();
    return std::vector<at::Tensor>{loss, x.grad(), model->weight.grad()};
  };
  const auto plain = gradients([](const Fn& fn, const at::Tensor& x) { return fn(x); });
  const auto ours = gradients(with({.use_reentrant = true}));
  EXPECT_TRUE(bitwise_equal(plain[0], ours[0]));
  EXPECT_TRUE(bitwise_equal(plain[1], ours[1]));
  EXPECT_TRUE(torch::allclose(plain[2], ours[2], 1e-5, 1e-6));
}

// LSTM's CPU kernel computes other bits in no-grad mode, where the reentrant forward runs. So its
// loss is compared with a no-grad forward, and its gradients with those of plain autograd for that
// loss's upstream gradient.
TEST(ReentrantZoo, ReentrantLstmEqualsItsOwnNoGradForward) {
  torch::manual_seed(11);
  auto model = std::make_shared<Lstm>();
  auto x = model->input().set_requires_grad(true);
  at::Tensor no_grad_output;
  {
    torch::NoGradGuard no_grad;
    no_grad_output = std::get<0>(model->lstm(x));
  }
  auto output = checkpoint(
      {.use_reentrant = true},
      [l = model->lstm](at::Tensor h) mutable { return std::get<0>(l(h)); },
      x);
  EXPECT_TRUE(bitwise_equal(no_grad_output, output));
  const auto upstream = torch::randn_like(output);
  output.backward(upstream);
  const auto reentrant = x.grad().clone();
  x.mutable_grad() = at::Tensor();
  std::get<0>(model->lstm(x)).backward(upstream);
  EXPECT_TRUE(bitwise_equal(x.grad(), reentrant));
}

}  // namespace
}  // namespace reprise::testing
