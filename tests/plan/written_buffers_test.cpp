// Plans of regions that write tensors from outside: running statistics, caches, counters. A region
// that is recomputed holds copies of them, a plain one does not.
#include "plan/chain.h"
#include "plan/step_planner.h"
#include "support/bitwise.h"
#include "support/devices.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

using planning::predict_peaks;
using planning::StepPlanner;

/// A block that adds its result to `buffer`, which may be any number of tensors.
Block writing_block(const at::Tensor& buffer) {
  return [buffer](const at::Tensor& h, const std::vector<at::Tensor>& w) {
    const auto y = residual_block(h, w);
    {
      const at::NoGradGuard no_grad;
      auto written = buffer;
      written.add_(y.detach().sum());
    }
    return y;
  };
}

at::Tensor tensors(int64_t count) {
  return torch::zeros({count * kSide, kSide});
}

/// Every plan of the curve takes what it predicts and changes no bits.
void expect_plans_hold(const Chain& chain, const std::vector<at::Tensor>& buffers) {
  const auto zero = [&] {
    for (auto buffer : buffers) {
      buffer.zero_();
    }
    chain.clear_gradients();
  };
  const auto results = [&] {
    auto values = chain.gradients();
    for (const auto& buffer : buffers) {
      values.push_back(buffer.clone());
    }
    return values;
  };
  const auto run = [&](const std::vector<RegionDecision>& decisions) {
    zero();
    return measured_peak(chain.device, chain.parameters(), decisions, [&] { chain.step(); });
  };
  zero();
  const auto trace = trace_of(chain);
  run(all_plain(trace));
  const auto expected = results();
  zero();
  const StepPlanner planner(trace);
  std::vector<std::pair<std::string, std::vector<RegionDecision>>> cases = {
      {"full", all_full(trace)},
      {"plain", all_plain(trace)},
      {"keep all", keeping(trace, [](size_t, const auto&) { return true; })}};
  for (size_t i = 0; i < trace.regions.size(); ++i) {
    cases.emplace_back("all but region " + std::to_string(i) + " plain", all_plain(trace));
    cases.back().second[i].is_plain = false;
    cases.emplace_back("only region " + std::to_string(i) + " plain", all_full(trace));
    cases.back().second[i].is_plain = true;
  }
  for (const auto& plan : planner.curve()) {
    cases.emplace_back("plan of " + std::to_string(plan.peak_bytes), plan.decisions);
    EXPECT_EQ(plan.peak_bytes, predict_peaks(trace, plan.decisions).peak());
  }
  for (const auto& [name, decisions] : cases) {
    const auto measured = run(decisions);
    EXPECT_NEAR(static_cast<double>(predict_peaks(trace, decisions).peak()) / kTensor,
                static_cast<double>(measured) / kTensor,
                static_cast<double>(kScalars) / kTensor)
        << name;
    expect_bitwise_equal(results(), expected);
  }
  EXPECT_TRUE(planner.curve().back().extra_ms == 0);
}

TEST(WrittenBuffers, OfTheFirstRegionMayBeLargerThanWhatItSaves) {
  const auto buffer = tensors(9);
  std::vector<Block> blocks(3, residual_block);
  blocks[0] = writing_block(buffer);
  expect_plans_hold(Chain(blocks), {buffer});
}

TEST(WrittenBuffers, OnTheGpuArePlannedToo) {
  REPRISE_REQUIRE_CUDA();
  const auto buffer = tensors(9).to(c10::kCUDA);
  std::vector<Block> blocks(3, residual_block);
  blocks[0] = writing_block(buffer);
  expect_plans_hold(Chain(blocks, c10::kCUDA), {buffer});
}

TEST(WrittenBuffers, OfTheLastRegionMayBeLargerThanWhatItSaves) {
  const auto buffer = tensors(9);
  std::vector<Block> blocks(3, residual_block);
  blocks[2] = writing_block(buffer);
  expect_plans_hold(Chain(blocks), {buffer});
}

TEST(WrittenBuffers, MayBeSharedByAllRegions) {
  const auto buffer = tensors(2);
  expect_plans_hold(Chain(4, writing_block(buffer)), {buffer});
}

TEST(WrittenBuffers, MayDifferFromRegionToRegion) {
  std::vector<at::Tensor> buffers;
  std::vector<Block> blocks;
  for (int64_t i = 0; i < 4; ++i) {
    buffers.push_back(tensors(1 + 3 * (i % 2)));
    blocks.push_back(writing_block(buffers.back()));
  }
  expect_plans_hold(Chain(blocks), buffers);
}

TEST(WrittenBuffers, MayBeSeveralInOneRegion) {
  const auto first = tensors(3), second = tensors(5);
  const auto write_first = writing_block(first), write_second = writing_block(second);
  std::vector<Block> blocks(3, residual_block);
  blocks[0] = blocks[1] = [=](const at::Tensor& h, const std::vector<at::Tensor>& w) {
    return write_second(write_first(h, w).tanh(), w);
  };
  expect_plans_hold(Chain(blocks), {first, second});
}

TEST(WrittenBuffers, MayBeTheOnlyThingThatARegionIsAbout) {
  const auto buffer = tensors(4);
  std::vector<Block> blocks(3, residual_block);
  blocks[0] = [buffer](const at::Tensor& h, const std::vector<at::Tensor>&) {
    const at::NoGradGuard no_grad;
    auto written = buffer;
    written.add_(h.sum());
    return h;
  };
  expect_plans_hold(Chain(blocks), {buffer});
}

TEST(WrittenBuffers, OfABatchNormAsTheFirstRegionArePlanned) {
  torch::nn::BatchNorm1d norm(kSide);
  const Chain rest(2);
  const auto x = torch::randn({kSide, kSide});
  auto parameters = rest.parameters();
  for (const auto& parameter : norm->parameters()) {
    parameters.push_back(parameter);
  }
  const auto step = [&] {
    auto h = checkpoint(
        CheckpointOptions{.name = "norm"},
        [norm](const at::Tensor& input) mutable { return norm(input); },
        x);
    for (size_t i = 0; i < 2;) {
      i += rest.run_from(i, h);
    }
    std::exchange(h, {}).square().mean().backward();
  };
  using namespace reprise::literals;
  const auto widest = plan(step, c10::kCPU, {.budget = 1_GiB});
  for (const auto& point : widest.curve()) {
    for (auto& parameter : parameters) {
      parameter.mutable_grad() = at::Tensor();
    }
    const auto one = widest.with_budget(point.peak_bytes);
    const auto measured = measured_peak(c10::kCPU, parameters, one.decisions(), step);
    EXPECT_NEAR(static_cast<double>(measured),
                static_cast<double>(point.peak_bytes),
                0.01 * static_cast<double>(point.peak_bytes));
  }
}

}  // namespace
}  // namespace reprise::testing
