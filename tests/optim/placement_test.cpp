// Optimizer state and gradients in host memory: the same bits as on the device, and no more of them
// on the device than promised. The CPU has two tiers here (Note [Tiers]).
#include "optim/host_gradients.h"
#include "support/bitwise.h"
#include "support/temporary_folder.h"
#include "support/tiers.h"

#include <reprise/memory.h>
#include <reprise/optim/optimizer.h>

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace reprise::testing {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;

struct Places {
  bool state = false, gradients = false;
};

OptimizerOptions options_of(OptimizerKind kind, Places places = {}) {
  OptimizerOptions options;
  options.kind = kind;
  options.weight_decay = 0.1;
  options.host.state = places.state;
  options.host.gradients = places.gradients;
  if (kind == OptimizerKind::Sgd) {
    options.momentum = 0.9;
  }
  return options;
}

Optimizer::Parameters model(at::ScalarType dtype) {
  torch::manual_seed(1);
  const auto parameter = [&](std::vector<int64_t> shape) {
    return torch::randn(shape).to(dtype).set_requires_grad(true);
  };
  return {{"embed_tokens.weight", parameter({90, 64})},
          {"layers.0.weight", parameter({64, 128})},
          {"layers.0.bias", parameter({7})},
          {"layers.1.weight", parameter({96, 64})},
          {"unused", parameter({5})},
          {"norm.weight", parameter({64})}};
}

/// Gradients of two micro-batches, which are far from equal. `unused` gets none.
void backward(const Optimizer& optimizer, int64_t step) {
  for (int64_t micro = 0; micro < 2; ++micro) {
    torch::manual_seed(100 * step + micro);
    at::Tensor loss = torch::zeros({});
    for (const auto& [name, parameter] : optimizer.parameters()) {
      if (name != "unused") {
        loss = loss + (parameter * torch::randn(parameter.sizes())).pow(2).sum();
      }
    }
    loss.backward();
    if (auto* gradients = optimizer.host_gradients()) {
      gradients->end_backward();
    }
  }
}

struct Trained {
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<MovingAverage> average;
  std::vector<at::Tensor> norms;

  std::vector<at::Tensor> all() const {
    std::vector<at::Tensor> tensors = norms;
    for (const auto& [name, parameter] : optimizer->parameters()) {
      tensors.push_back(parameter.detach());
    }
    for (const auto& list : {optimizer->state(), average->state()}) {
      for (const auto& [name, tensor] : list) {
        tensors.push_back(tensor);
      }
    }
    return tensors;
  }
};

void train(Trained& run, int64_t first, int64_t last, double max_norm) {
  for (int64_t step = first; step < last; ++step) {
    backward(*run.optimizer, step);
    run.norms.push_back(run.optimizer->clip(max_norm));
    run.optimizer->step(0.01);
    run.optimizer->zero_grad();
    run.average->update();
  }
}

Trained fresh(const OptimizerOptions& options, at::ScalarType dtype) {
  Trained run;
  run.optimizer = Optimizer::make(model(dtype), options);
  run.average = std::make_unique<MovingAverage>(*run.optimizer, 0.9);
  return run;
}

class Offload : public ::testing::TestWithParam<std::tuple<OptimizerKind, at::ScalarType, double>> {
 protected:
  CpuTiers tiers_;
};

TEST_P(Offload, ChangesNoBitOfWeightsNormsStateAndAverages) {
  const auto [kind, dtype, max_norm] = GetParam();
  Trained plain = fresh(options_of(kind), dtype);
  train(plain, 0, 3, max_norm);
  for (const Places places : {Places{true, false}, Places{false, true}, Places{true, true}}) {
    SCOPED_TRACE(c10::str("state ", places.state, ", gradients ", places.gradients));
    Trained moved = fresh(options_of(kind, places), dtype);
    train(moved, 0, 3, max_norm);
    expect_bitwise_equal(moved.all(), plain.all());
    EXPECT_GT(moved.optimizer->moved_bytes(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(OfEveryKind,
                         Offload,
                         ::testing::Combine(::testing::Values(OptimizerKind::AdamW,
                                                              OptimizerKind::AdamW8bit,
                                                              OptimizerKind::AdamWBf16,
                                                              OptimizerKind::Lion,
                                                              OptimizerKind::Adafactor,
                                                              OptimizerKind::Muon,
                                                              OptimizerKind::RmsProp,
                                                              OptimizerKind::Sgd),
                                            ::testing::Values(at::kFloat, at::kBFloat16),
                                            ::testing::Values(0.0, 1.0)),
                         [](const auto& info) {
                           return c10::str(
                               name_of(std::get<0>(info.param)),
                               "_",
                               std::get<1>(info.param) == at::kFloat ? "float32" : "bfloat16",
                               std::get<2>(info.param) > 0 ? "_clipped" : "");
                         });

class OffloadOf : public ::testing::Test {
 protected:
  OffloadOf() { track_cpu_memory(); }
  CpuTiers tiers_;
};

/// 17 Mi elements: a slice and a sixteenth of one.
TEST_F(OffloadOf, StateSlicesLargeParametersAndHoldsThreeSlices) {
  for (const auto kind : {OptimizerKind::AdamW, OptimizerKind::AdamW8bit}) {
    SCOPED_TRACE(name_of(kind));
    torch::manual_seed(2);
    const at::Tensor weight = torch::randn({17, kMebibyte});
    const at::Tensor twin = weight.clone();
    const auto plain = Optimizer::make({{"w", weight}}, options_of(kind));
    const auto moved = Optimizer::make({{"w", twin}}, options_of(kind, {.state = true}));
    weight.mutable_grad() = twin.mutable_grad() = torch::randn({17, kMebibyte});
    for (int step = 0; step < 2; ++step) {
      plain->step(0.01);
      const PeakTracker tracker(at::kCPU);
      moved->step(0.01);
      EXPECT_LE(tracker.extra(), moved->update_bytes() + kMebibyte);  // tables of codes
      EXPECT_GE(tracker.extra(), moved->update_bytes() * 3 / 4);
    }
    EXPECT_TRUE(bitwise_equal(weight, twin));
    EXPECT_EQ(moved->moved_bytes(), 2 * 2 * moved->host_bytes());
    // Two slices of 16 Mi elements, and what the rule needs for one.
    const int64_t slice = kind == OptimizerKind::AdamW ? 128 * kMebibyte : 32 * kMebibyte + 524288;
    EXPECT_EQ(moved->update_bytes(), 2 * slice + plain->update_bytes());
  }
}

TEST_F(OffloadOf, StateLeavesTheDevice) {
  const int64_t host = memory::host_bytes();
  const int64_t device = live_bytes(at::kCPU);
  const auto plain = Optimizer::make({{"w", torch::ones({kMebibyte}, at::kBFloat16)}}, {});
  const int64_t stays = live_bytes(at::kCPU) - device;
  EXPECT_EQ(plain->host_bytes(), 0);
  EXPECT_EQ(memory::host_bytes(), host);
  const auto moved = Optimizer::make({{"w", torch::ones({kMebibyte}, at::kBFloat16)}},
                                     options_of(OptimizerKind::AdamW, {.state = true}));
  // Copies and two moments of 4 MiB; a count of steps stays with the parameter of 2 MiB.
  EXPECT_EQ(moved->host_bytes(), 12 * kMebibyte);
  EXPECT_EQ(memory::host_bytes(), host + 12 * kMebibyte);
  EXPECT_EQ(live_bytes(at::kCPU) - device - stays, stays - 12 * kMebibyte);
  EXPECT_EQ(moved->bytes(), plain->bytes());
}

TEST_F(OffloadOf, GradientsKeepsAtMostTheLargestBesideTheNewOne) {
  Optimizer::Parameters parameters;
  for (int i = 0; i < 8; ++i) {
    parameters.emplace_back("w" + std::to_string(i),
                            torch::ones({kMebibyte}).set_requires_grad(true));
  }
  const auto optimizer =
      Optimizer::make(parameters, options_of(OptimizerKind::AdamW, {.gradients = true}));
  const auto loss = [&] {
    at::Tensor sum = torch::zeros({});
    for (const auto& [name, parameter] : parameters) {
      sum = sum + parameter.sum();
    }
    return sum;
  };
  const int64_t before = live_bytes(at::kCPU);
  for (const int64_t mebibytes : {8, 12}) {  // the second time, a sum comes back
    const PeakTracker tracker(at::kCPU);
    loss().backward();
    EXPECT_LE(tracker.extra(), mebibytes * kMebibyte + kMebibyte / 16);
    optimizer->host_gradients()->end_backward();
    EXPECT_LE(live_bytes(at::kCPU) - before, kMebibyte / 16);  // norms
  }
  EXPECT_EQ(optimizer->host_gradients()->host_bytes(), 32 * kMebibyte);
  for (const auto& [name, parameter] : parameters) {
    EXPECT_FALSE(parameter.grad().defined());
  }
}

TEST_F(OffloadOf, ARehearsalLeavesNothing) {
  const auto moved = [] {
    return fresh(options_of(OptimizerKind::AdamW, {.gradients = true}), at::kFloat);
  };
  Trained plain = moved(), rehearsed = moved();
  backward(*plain.optimizer, 0);
  backward(*rehearsed.optimizer, 0);
  {
    const HostGradients::Rehearsal rehearsal(*rehearsed.optimizer->host_gradients(), true);
    backward(*rehearsed.optimizer, 1);
  }
  for (const Trained* run : {&plain, &rehearsed}) {
    run->optimizer->clip(1);
    run->optimizer->step(0.1);
  }
  expect_bitwise_equal(rehearsed.all(), plain.all());
}

TEST_F(OffloadOf, StateIsSavedAndLoadedAsOnTheDevice) {
  const TemporaryFolder folder;
  const auto saved = [&](const Trained& run, const std::string& name) {
    const auto file = folder.path() / name;
    write_safetensors(file, run.optimizer->state());
    return TensorFile(file);
  };
  const auto kind = OptimizerKind::AdamW;
  Trained plain = fresh(options_of(kind), at::kBFloat16);
  Trained moved = fresh(options_of(kind, {true, true}), at::kBFloat16);
  train(plain, 0, 2, 1);
  train(moved, 0, 2, 1);
  plain.optimizer->load(saved(moved, "moved"));
  moved.optimizer->load(saved(plain, "plain"));
  train(plain, 2, 4, 1);
  train(moved, 2, 4, 1);
  expect_bitwise_equal(moved.all(), plain.all());
}

TEST_F(OffloadOf, AveragesAreInHostMemoryToo) {
  const Trained run = fresh(options_of(OptimizerKind::AdamW, {.state = true}), at::kFloat);
  const int64_t bytes = memory::host_bytes() - run.optimizer->host_bytes();
  EXPECT_EQ(bytes, run.optimizer->host_bytes() / 2);
  const auto before = run.optimizer->parameters().front().second.detach().clone();
  {
    const auto swapped = run.average->swap();
    EXPECT_TRUE(bitwise_equal(run.optimizer->parameters().front().second.detach(), before));
  }
  EXPECT_TRUE(bitwise_equal(run.optimizer->parameters().front().second.detach(), before));
}

/// As a budget that turns out too small does it, before the first step or between two.
TEST_F(OffloadOf, PlacesChangeBetweenStepsWithoutChangingABit) {
  for (const int64_t before : {0, 2}) {
    Trained plain = fresh(options_of(OptimizerKind::AdamW), at::kBFloat16);
    Trained moved = fresh(options_of(OptimizerKind::AdamW), at::kBFloat16);
    train(plain, 0, before + 3, 1);
    train(moved, 0, before, 1);
    int64_t step = before;
    for (const Placement host : {Placement{true, false}, Placement{false, true}, Placement{}}) {
      moved.optimizer->place(host);
      moved.average->place(host.state);
      EXPECT_EQ(moved.optimizer->host_bytes() > 0, host.state);
      EXPECT_EQ(moved.optimizer->host_gradients() != nullptr, host.gradients);
      train(moved, step, step + 1, 1);
      ++step;
    }
    EXPECT_EQ(memory::host_bytes(), 0);
    expect_bitwise_equal(moved.all(), plain.all());
  }
}

TEST_F(OffloadOf, AnythingBeyondTheLimitIsRefused) {
  memory::set_host_limit(memory::host_bytes() + 8 * kMebibyte);
  const int64_t before = memory::host_bytes();
  expect_error(
      [] {
        Optimizer::make({{"w", torch::ones({kMebibyte + 1})}},
                        options_of(OptimizerKind::AdamW, {.state = true}));
      },
      "4194308 more bytes of host memory for what leaves the device: the limit is");
  memory::set_host_limit(0);
  EXPECT_EQ(memory::host_bytes(), before);
}

TEST_F(OffloadOf, NothingIsRefused) {
  const Optimizer::Parameters parameters = {{"w", torch::ones({4}).set_requires_grad(true)}};
  expect_error(
      [&] { Optimizer::make(parameters, {.kind = OptimizerKind::Sgd, .host = {.state = true}}); },
      "`optimizer_offload` has no effect: this optimizer keeps no state");
  memory::set_cpu_tiers(false);
  expect_error([&] { Optimizer::make(parameters, {.host = {.state = true}}); },
               "`optimizer_offload` has no effect: the parameters are on cpu");
  expect_error([&] { Optimizer::make(parameters, {.host = {.gradients = true}}); },
               "`gradient_offload` has no effect: the parameters are on cpu");
}

}  // namespace
}  // namespace reprise::testing
