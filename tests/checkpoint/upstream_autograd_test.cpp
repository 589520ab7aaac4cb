// The claims of the checkpoint tests in PyTorch's TestAutograd and TestAutogradDeviceType
// (test/test_autograd.py). docs/upstream-tests.md says which test is which.
#include "support/bitwise.h"
#include "support/devices.h"

#include <reprise/autocast.h>
#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/nn/parallel/data_parallel.h>
#include <torch/torch.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

/// Calls its first argument with the second, in a region or plainly.
using Runner = std::function<at::Tensor(const Fn&, at::Tensor)>;

torch::nn::Sequential bottleneck() {
  torch::manual_seed(2);
  return torch::nn::Sequential(
      torch::nn::Linear(10, 64), torch::nn::ReLU(), torch::nn::Linear(64, 10));
}

/// Gradients of the parameters after one backward over the mean of 2000 calls of `run(net, input)`.
std::vector<at::Tensor> train_on_2000(bool input_requires_grad, const Runner& run) {
  auto net = bottleneck();
  const Fn call = [net](at::Tensor x) mutable { return net->forward(std::move(x)); };
  std::vector<at::Tensor> results;
  for (int i = 0; i < 2000; ++i) {
    results.push_back(run(call, torch::rand({1, 10}).set_requires_grad(input_requires_grad)));
  }
  torch::stack(results).mean().backward();
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : net->parameters()) {
    gradients.push_back(parameter.grad());
  }
  return gradients;
}

at::Tensor call_plain(const Fn& net, at::Tensor x) {
  return net(std::move(x));
}

TEST(UpstreamAutograd, TwoThousandRegionsInOneBackwardGivePlainGradients) {
  for (const bool input_requires_grad : {true, false}) {
    SCOPED_TRACE(input_requires_grad);
    expect_bitwise_equal(train_on_2000(input_requires_grad, call_plain),
                         train_on_2000(input_requires_grad, [](const Fn& net, at::Tensor x) {
                           return checkpoint(net, x);
                         }));
  }
}

// Each reentrant region adds to .grad by itself, so sums come in another order than in plain
// autograd.
TEST(UpstreamAutograd, TwoThousandReentrantRegionsInOneBackwardRun) {
  const auto plain = train_on_2000(true, call_plain);
  const auto ours = train_on_2000(true, [](const Fn& net, at::Tensor x) {
    return checkpoint({.use_reentrant = true}, net, x);
  });
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(torch::allclose(plain[i], ours[i], 1e-4, 1e-6)) << i;
  }
}

void expect_autocast_restored(c10::DeviceType device) {
  for (const bool enabled : {true, false}) {
    SCOPED_TRACE(enabled);
    std::vector<at::ScalarType> dtypes;
    const auto products = [&dtypes](at::Tensor x, at::Tensor y, at::Tensor z) {
      auto xy = torch::mm(torch::mm(x, y), z);
      auto zz = torch::mm(z, z);
      dtypes.push_back(zz.scalar_type());
      return xy + zz;
    };
    const auto options = torch::TensorOptions(device).requires_grad(true);
    auto x = torch::randn({3, 3}, options);
    auto y = torch::randn({3, 3}, options);
    auto z = torch::randn({3, 3}, options);
    at::Tensor loss;
    {
      const AutocastScope autocast(device, at::kBFloat16, enabled);
      loss = checkpoint({.early_stop = false}, products, x, y, z).sum();
    }
    loss.backward();
    EXPECT_EQ(dtypes, std::vector<at::ScalarType>(2, enabled ? at::kBFloat16 : at::kFloat));
  }
}

TEST(UpstreamAutograd, RecomputeRunsInTheAutocastDtypeOfForward) {
  expect_autocast_restored(c10::kCPU);
}

TEST(UpstreamAutograd, RecomputeRunsInTheAutocastDtypeOfForwardOnGpu) {
  REPRISE_REQUIRE_CUDA();
  expect_autocast_restored(c10::kCUDA);
}

/// Peak bytes of one step over 8 blocks of three linear layers, on top of parameters and their
/// gradients.
int64_t peak_of_step(c10::DeviceType device, const Runner& run) {
  std::vector<Fn> blocks;
  for (int i = 0; i < 8; ++i) {
    torch::nn::Sequential block(
        torch::nn::Linear(256, 256), torch::nn::Linear(256, 256), torch::nn::Linear(256, 256));
    block->to(device);
    for (auto& parameter : block->parameters()) {
      parameter.mutable_grad() = torch::ones_like(parameter);
    }
    blocks.emplace_back([block](at::Tensor x) mutable { return block->forward(x); });
  }
  auto x = torch::randn({100, 256}, torch::TensorOptions(device).requires_grad(true));
  const PeakTracker tracker(device);
  auto h = x.clone();
  for (const auto& block : blocks) {
    h = run(block, h);
  }
  h.sum().backward();
  return tracker.extra();
}

void expect_memory_savings(c10::DeviceType device) {
  peak_of_step(device, call_plain);  // what LibTorch allocates once and for all
  const auto plain = peak_of_step(device, call_plain);
  for (const bool use_reentrant : {false, true}) {
    EXPECT_LT(peak_of_step(device,
                           [&](const Fn& fn, at::Tensor x) {
                             return checkpoint({.use_reentrant = use_reentrant}, fn, x);
                           }),
              plain)
        << use_reentrant;
  }
}

TEST(UpstreamAutograd, PeakOfAStepIsLowerThanPlain) {
  expect_memory_savings(c10::kCPU);
}

TEST(UpstreamAutograd, PeakOfAStepIsLowerThanPlainOnGpu) {
  REPRISE_REQUIRE_CUDA();
  expect_memory_savings(c10::kCUDA);
}

/// How often a region with two results runs when each is differentiated by its own call.
size_t runs_of_two_calls(bool in_group) {
  size_t runs = 0;
  auto x = torch::randn({3, 3}, at::requires_grad());
  const auto [y, z] = checkpoint(
      [&runs](at::Tensor h) {
        ++runs;
        auto first = h.sin().cos();
        return std::pair(first, first.sin().cos());
      },
      x);
  const auto differentiate = [&, first = y, second = z] {
    const auto upstream = torch::autograd::grad({second}, {first}, {torch::ones({3, 3})})[0];
    return torch::autograd::grad({first}, {x}, {upstream})[0];
  };
  at::Tensor ours;
  if (in_group) {
    const GraphExecGroup group;
    ours = differentiate();
  } else {
    ours = differentiate();
  }
  auto plain = x.sin().cos().sin().cos();
  EXPECT_TRUE(bitwise_equal(ours, torch::autograd::grad({plain}, {x}, {torch::ones({3, 3})})[0]));
  return runs;
}

TEST(UpstreamAutograd, AGraphExecGroupRecomputesOncePerRegion) {
  EXPECT_EQ(runs_of_two_calls(/*in_group=*/true), 2U);
  EXPECT_EQ(runs_of_two_calls(/*in_group=*/false), 3U);
}

// Upstream refuses the overlap.
TEST(UpstreamAutograd, OverlappingBackwardsInAGraphExecGroupRecomputeAgain) {
  auto x = torch::randn({3, 3}, at::requires_grad());
  const Fn fn = [](at::Tensor h) { return h.sin().cos(); };
  fn(x).sum().backward();
  const auto plain = x.grad().clone();
  x.mutable_grad() = at::Tensor();
  auto y = checkpoint(fn, x);
  const GraphExecGroup group;
  y.sum().backward({}, /*retain_graph=*/true);
  EXPECT_TRUE(bitwise_equal(x.grad(), plain));
  y.sum().backward();
  EXPECT_TRUE(bitwise_equal(x.grad(), plain + plain));
}

/// Backward over a region that runs `first` in forward and `later` when it is run again.
void run_differently(const CheckpointOptions& options, const Fn& first, const Fn& later) {
  auto x = torch::randn({1}, at::requires_grad());
  bool is_first = true;
  checkpoint(
      options,
      [&](at::Tensor h) { return std::exchange(is_first, false) ? first(h) : later(h); },
      x)
      .sum()
      .backward();
}

TEST(UpstreamAutograd, OtherWorkInRecomputeIsNoticed) {
  const Fn save_3 = [](at::Tensor x) { return x.sin().exp().sin(); };
  const Fn save_2 = [](at::Tensor x) { return x.sin().exp(); };
  const Fn save_2_larger = [](at::Tensor x) { return x.sin() * torch::tensor({1.0F, 2.0F}); };
  const auto message = [](const CheckpointOptions& options, const Fn& first, const Fn& later) {
    return message_of<CheckpointError>([&] { run_differently(options, first, later); });
  };
  const auto fewer = message({}, save_3, save_2);
  EXPECT_TRUE(
      contains(fewer, "saved 3 tensors for backward in forward but 2 when it was run again"));
  EXPECT_TRUE(contains(fewer, "SinBackward0"));

  EXPECT_TRUE(contains(message({.early_stop = false}, save_2, save_3),
                       "saved 2 tensors for backward in forward but 3 when it was run again"));
  // Early stop ends the recompute before it comes to the difference. (If forward has nothing left
  // to do after its last saved tensor there is nothing to stop, and the difference is an error.)
  const Fn save_2_and_go_on = [](at::Tensor x) { return x.sin().exp().clone(); };
  EXPECT_NO_THROW(run_differently({}, save_2_and_go_on, save_3));
  EXPECT_TRUE(
      contains(message({.early_stop = false}, save_2_and_go_on, save_3), "saved 2 tensors"));

  const auto larger = message({}, save_2, save_2_larger);
  EXPECT_TRUE(contains(larger, "did different work when it was recomputed"));
  EXPECT_TRUE(contains(larger, "[1]"));
  EXPECT_TRUE(contains(larger, "[2]"));
}

TEST(UpstreamAutograd, ReadingASavedTensorOutsideBackwardRecomputesEachTime) {
  size_t runs = 0;
  auto x = torch::randn({5}, at::requires_grad());
  auto y = checkpoint(
      [&runs](at::Tensor a) {
        ++runs;
        auto unused = a * (a * a);
        return torch::exp(a);
      },
      x);
  const auto owner = y.grad_fn();
  auto* node = dynamic_cast<torch::autograd::generated::ExpBackward0*>(owner.get());
  ASSERT_NE(node, nullptr);
  const auto read = [&] { return node->result_.unpack(owner); };
  EXPECT_EQ(runs, 1U);
  EXPECT_TRUE(bitwise_equal(read(), y));
  EXPECT_EQ(runs, 2U);
  EXPECT_TRUE(bitwise_equal(read(), y));
  EXPECT_EQ(runs, 3U);
  y.sum().backward();
  EXPECT_EQ(runs, 4U);
  EXPECT_TRUE(contains(message_of<c10::Error>(read), "after they have already been freed"));
  EXPECT_EQ(runs, 4U);
}

TEST(UpstreamAutograd, ARefusedReentrantBackwardDoesNotSpoilTheNext) {
  auto x = torch::randn({2, 2}, at::requires_grad());
  const auto region = [&x] {
    return checkpoint(
               {.use_reentrant = true}, [](at::Tensor h) { return torch::exp(h); }, x)
        .sum();
  };
  EXPECT_TRUE(contains(message_of<CheckpointError>([&] { torch::autograd::grad({region()}, {x}); }),
                       "incompatible with torch::autograd::grad()"));
  region().backward();
  EXPECT_TRUE(bitwise_equal(x.grad(), torch::exp(x)));
}

TEST(UpstreamAutograd, ARegionWithoutGradIsRefusedReentrantAndHarmlessOtherwise) {
  auto weight = torch::randn({2, 2}, at::requires_grad());
  const Fn without_grad = [weight](at::Tensor h) {
    const torch::NoGradGuard no_grad;
    return torch::mm(torch::mm(h, weight), weight);
  };
  auto x = torch::randn({2, 2}, at::requires_grad());
  const auto step = [&](bool use_reentrant) {
    auto y = checkpoint({.use_reentrant = use_reentrant}, without_grad, x);
    y += x;
    y.sum().backward();
  };
  for (int i = 1; i <= 3; ++i) {
    EXPECT_TRUE(contains(message_of<CheckpointError>([&] { step(true); }), "none of the outputs"));
    x.mutable_grad() = at::Tensor();
    step(false);
    EXPECT_TRUE(bitwise_equal(x.grad(), torch::ones({2, 2})));
    EXPECT_FALSE(weight.grad().defined());
  }
}

TEST(UpstreamAutograd, BackwardAndGradGiveThePlainGradient) {
  auto x = torch::randn({2, 2}, at::requires_grad());
  const Fn fn = [](at::Tensor h) { return torch::exp(h); };
  const auto plain = torch::autograd::grad({fn(x).sum()}, {x})[0];
  checkpoint(fn, x).sum().backward();
  EXPECT_TRUE(bitwise_equal(x.grad(), plain));
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({checkpoint(fn, x).sum()}, {x})[0], plain));
}

// LibTorch scatters and gathers on GPUs only, in its CUDA library; what is left of data_parallel
// without it, replicas called on several threads, is what a region has to bear.
TEST(UpstreamAutograd, ReplicasOnSeveralThreadsInsideARegionGiveThePlainGradient) {
  torch::nn::Linear linear(torch::nn::LinearOptions(2, 2).bias(false));
  auto x = torch::randn({4, 2}, at::requires_grad());
  const auto plain = torch::autograd::grad({linear(x).tanh().sum()}, {x})[0];
  std::vector<torch::nn::Linear> replicas{
      linear, std::dynamic_pointer_cast<torch::nn::LinearImpl>(linear->clone())};
  const Fn fn = [replicas](at::Tensor h) mutable {
    return torch::cat(torch::nn::parallel::parallel_apply(replicas, h.chunk(2))).tanh();
  };
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({checkpoint(fn, x).sum()}, {x})[0], plain));
}

TEST(UpstreamAutograd, AHookOnALeafUsedInAndOutOfARegionRunsOnce) {
  auto w = torch::randn({10, 10}, at::requires_grad());
  auto x = torch::randn({10, 10}, at::requires_grad());
  size_t calls = 0;
  w.register_hook([&calls](const at::Tensor&) { ++calls; });
  checkpoint([w](at::Tensor h) { return w * h; }, w * x).sum().backward();
  EXPECT_EQ(calls, 1U);
  EXPECT_TRUE(torch::allclose(w.grad(), 2 * w * x));
}

TEST(UpstreamAutograd, MapsInAndOutGivePlainResultsAndGradients) {
  using Map = std::map<std::string, at::Tensor>;
  torch::nn::Linear layer(torch::nn::LinearOptions(5, 5).bias(false));
  const auto fn = [layer](Map values) {
    return Map{{"result", layer.ptr()->forward(values.at("tensor"))}};
  };
  const Map input{{"tensor", torch::randn({5, 5})}};
  const auto step = [&](Map output) {
    output.at("result").sum().backward();
    return std::vector<at::Tensor>{output.at("result"),
                                   std::exchange(layer->weight.mutable_grad(), at::Tensor())};
  };
  expect_bitwise_equal(step(fn(input)), step(checkpoint(fn, input)));
}

TEST(UpstreamAutograd, AReentrantRegionAcrossDevicesRuns) {
  REPRISE_REQUIRE_CUDA();
  auto x = torch::full({2}, 0.5F, at::requires_grad());
  auto long_branch = x.to(c10::kCUDA);
  for (int i = 0; i < 3; ++i) {
    long_branch = long_branch / long_branch;
  }
  auto region = checkpoint(
      {.use_reentrant = true}, [](at::Tensor h) { return (h * 2 * 2).to(c10::kCUDA); }, x);
  (region + long_branch).sum().backward();
  EXPECT_TRUE(torch::allclose(x.grad(), torch::full({2}, 4.0F)));
}

}  // namespace
}  // namespace reprise::testing
