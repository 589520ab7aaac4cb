// A golden loss curve: what a small transformer's training must give, on any machine and under
// every memory mode.
//
// Review before updating: if these numbers change, either the arithmetic of a kernel changed (then
// plain training moves too, and the change should be visible in LibTorch's notes) or we broke
// something.
#include "support/zoo.h"

#include <gtest/gtest.h>

#include <array>

namespace reprise::testing {
namespace {

constexpr std::array<double, 8> kGolden{17.608783997609,
                                        6.455223920387,
                                        4.615054738630,
                                        3.422747649611,
                                        2.571900105216,
                                        1.950495949109,
                                        1.495927277703,
                                        1.167044454131};

/// Weights and data from a formula, not from a generator, whose numbers may differ between builds
/// of LibTorch.
at::Tensor wave(at::IntArrayRef sizes, double phase) {
  const auto count = c10::multiply_integers(sizes);
  return torch::arange(count, torch::kDouble).mul(0.7).add(phase).sin().reshape(sizes);
}

std::vector<double> train(const RegionRunner& region) {
  auto model = std::make_shared<Transformer>();
  model->to(at::kDouble);
  model->eval();  // no dropout
  {
    torch::NoGradGuard no_grad;
    double phase = 0;
    for (auto& parameter : model->parameters()) {
      parameter.copy_(
          wave(parameter.sizes(), phase += 1).mul(0.3).add(parameter.dim() == 1 ? 0.5 : 0));
    }
  }
  torch::optim::SGD optimizer(model->parameters(), 0.02);
  const auto x = wave({2, 6, 8}, 0.5).set_requires_grad(true);
  std::vector<double> losses;
  for (size_t step = 0; step < kGolden.size(); ++step) {
    optimizer.zero_grad();
    const auto loss = model->loss(x, region);
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

TEST(GoldenCurve, IsTheSameUnderEveryMemoryMode) {
  for (const auto& mode : memory_modes()) {
    const auto losses = train(mode.run);
    for (size_t step = 0; step < kGolden.size(); ++step) {
      EXPECT_NEAR(losses[step], kGolden[step], 1e-8) << mode.name << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace reprise::testing
