// The law under offloading: what went to the host comes back as it was, whatever happens in
// between.
#include "support/bitwise.h"
#include "support/clone_backend.h"
#include "support/devices.h"
#include "support/zoo.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

/// Two results over one storage, the second transposed.
std::tuple<at::Tensor, at::Tensor> twins_kernel(const at::Tensor& x) {
  const auto both = at::stack({x.sin(), x.cos()}).transpose(1, 2).contiguous();
  return {both.select(0, 0).t(), both.select(0, 1)};
}
TORCH_LIBRARY(reprise_offload_test, m) {
  m.def("twins(Tensor x) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(reprise_offload_test, CPU, m) {
  m.impl("twins", &twins_kernel);
}

/// `decision` for whatever may be kept, as keep_everything() decides; else Recompute.
std::shared_ptr<const Policy> everything(std::function<Decision(size_t call)> decision) {
  return policy::from([keep = keep_everything(), decision](const OpContext& op) {
    return keep->decide(op) == Decision::Keep ? decision(op.call_index) : Decision::Recompute;
  });
}

std::shared_ptr<const Policy> offload_everything() {
  return everything([](size_t) { return Decision::Offload; });
}

std::vector<MemoryMode> offloading_modes() {
  const CheckpointOptions results{.policy = offload_everything()};
  const CheckpointOptions half{.policy = everything([](size_t call) {
                                 return call % 2 == 0 ? Decision::Offload : Decision::Recompute;
                               })};
  const CheckpointOptions other_half{.policy = everything([](size_t call) {
                                       return call % 2 == 0 ? Decision::Keep : Decision::Offload;
                                     })};
  const CheckpointOptions inputs{.offload_inputs = true};
  const CheckpointOptions both{.policy = offload_everything(), .offload_inputs = true};
  return {{.name = "Results", .run = with(results)},
          {.name = "ResultsCheckingValues",
           .run = with(
               {.determinism_check = DeterminismCheck::Values, .policy = offload_everything()})},
          {.name = "HalfRecomputed", .run = with(half)},
          {.name = "HalfKept", .run = with(other_half)},
          {.name = "Inputs", .run = with(inputs)},
          {.name = "InputsAndResults", .run = with(both)},
          {.name = "Nested", .run = nested(inputs, results)},
          {.name = "NestedPolicies", .run = nested(both, half)}};
}

/// Two training steps: losses, gradients, buffers and the next random numbers.
std::vector<at::Tensor> train(const ZooEntry& entry,
                              const RegionRunner& region,
                              c10::DeviceType device) {
  torch::manual_seed(11);
  auto model = entry.make();
  auto x = model->input();
  model->to(device);
  x = x.to(device).set_requires_grad(true);
  std::vector<at::Tensor> all;
  for (int step = 0; step < 2; ++step) {
    model->zero_grad();
    x.mutable_grad() = at::Tensor();
    const auto loss = model->loss(x.clone(), region);  // an activation, which may be offloaded
    loss.backward();
    all.push_back(loss.detach());
    all.push_back(x.grad().clone());
    for (const auto& parameter : model->parameters()) {
      all.push_back(parameter.grad().clone());
      const torch::NoGradGuard no_grad;
      parameter.sub_(parameter.grad() * 0.1);
    }
    for (const auto& buffer : model->buffers()) {
      all.push_back(buffer.clone());
    }
    all.push_back(torch::rand({4}, torch::TensorOptions(device)));
  }
  return all;
}

void expect_the_law(c10::DeviceType device) {
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  for (const auto& entry : zoo()) {
    const auto plain = train(entry, memory_modes()[0].run, device);
    for (const auto& mode : offloading_modes()) {
      SCOPED_TRACE(entry.name + " " + mode.name);
      if (entry.name == "ConvNet" && mode.name == "ResultsCheckingValues") {
        continue;  // a replayed batch norm leaves running statistics as they are, which it saves
      }
      for (const size_t prefetch : {0, 1, 2}) {
        set_offload_settings({.prefetch = prefetch});
        expect_bitwise_equal(plain, train(entry, mode.run, device));
        EXPECT_EQ(offload_use().host_bytes_in_use, 0);
      }
    }
    EXPECT_GT(offload_use().host_bytes_peak, 0);
  }
  at::globalContext().setDeterministicAlgorithms(false, false);
}

TEST(OffloadedZoo, IsBitwiseEqualToPlain) {
  const BackendScope backend(std::make_shared<CloneBackend>(1, /*is_lazy=*/false));
  expect_the_law(c10::kCPU);
}

TEST(OffloadedZoo, IsBitwiseEqualToPlainWhenCopiesComeLate) {
  const BackendScope backend(std::make_shared<CloneBackend>(1, /*is_lazy=*/true));
  expect_the_law(c10::kCPU);
}

TEST(OffloadedZoo, IsBitwiseEqualToPlainOnTheGpu) {
  REPRISE_REQUIRE_CUDA();
  const BackendScope backend(detail::make_stream_backend(/*smallest_bytes=*/1));
  expect_the_law(c10::kCUDA);
}

/// Tests of one region at a time, with copies that come late.
class Offload : public ::testing::Test {
 protected:
  static at::Tensor input() { return torch::linspace(-1, 1, 64).view({8, 8}).requires_grad_(); }
  static at::Tensor plain_gradient(const Fn& fn, int regions = 1) {
    const auto x = input();
    auto y = x;
    for (int i = 0; i < regions; ++i) {
      y = fn(y);
    }
    return torch::autograd::grad({y.sum()}, {x})[0];
  }
  static at::Tensor chain(const Fn& fn, at::Tensor x, int regions) {
    x = x.clone();  // an activation, which may be offloaded
    for (int i = 0; i < regions; ++i) {
      x = checkpoint(
          {.policy = offload_everything(), .offload_inputs = true, .name = "part"}, fn, x);
    }
    return x;
  }

  const Fn fn_ = [](at::Tensor x) { return x.sin().exp().tanh().mul(1.5); };
  const std::shared_ptr<CloneBackend> tier_ = std::make_shared<CloneBackend>(1, /*is_lazy=*/true);
  const BackendScope scope_{tier_};
};

TEST_F(Offload, IsReplayedAnyNumberOfTimes) {
  const auto plain = plain_gradient(fn_, 3);
  const auto x = input();
  const auto y = chain(fn_, x, 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(
        bitwise_equal(plain, torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true)[0]));
  }
  EXPECT_TRUE(bitwise_equal(plain, torch::autograd::grad({y.sum()}, {x})[0]));
}

TEST_F(Offload, SurvivesResultsThatAreWrittenInPlaceInEveryRun) {
  const auto w = torch::linspace(-1, 1, 64).view({8, 8});
  const Fn fn = [w](at::Tensor h) {
    auto y = torch::mm(h, w).add_(1);
    y.t().select(0, 0).mul_(2);
    return y * y;
  };
  const Fn region = [fn](at::Tensor h) {
    return checkpoint({.policy = offload_everything()}, fn, h);
  };
  const auto x = input();
  const auto plain = torch::autograd::grad({fn(fn(x)).square().sum()}, {x})[0];
  const auto loss = region(region(x)).square().sum();
  // The graph of the first gradient holds what its recompute wrote: the second must not use it.
  const auto first = torch::autograd::grad({loss}, {x}, {}, true, /*create_graph=*/true)[0];
  const auto second = torch::autograd::grad({loss}, {x}, {}, true)[0];
  EXPECT_TRUE(bitwise_equal(plain, first));
  EXPECT_TRUE(bitwise_equal(plain, second));
}

TEST_F(Offload, ViewsOfOneStorageMoveOnceAndKeepTheirStrides) {
  const auto twins = c10::Dispatcher::singleton()
                         .findSchemaOrThrow("reprise_offload_test::twins", "")
                         .typed<std::tuple<at::Tensor, at::Tensor>(const at::Tensor&)>();
  std::vector<std::vector<int64_t>> strides;
  const Fn fn = [twins, &strides](at::Tensor h) {
    const auto [a, b] = twins.call(h.detach());
    strides.push_back(a.strides().vec());
    strides.push_back({b.storage_offset()});
    return h.exp() * a + h.sin() * b;
  };
  const auto plain = plain_gradient(fn);
  record_checkpoint_stats(true);
  reset_checkpoint_stats();
  const auto x = input();
  const auto y = checkpoint(
      {.policy = policy::from([](const OpContext& op) {
         return op.name == "reprise_offload_test::twins" ? Decision::Offload : Decision::Recompute;
       })},
      fn,
      x);
  EXPECT_EQ(checkpoint_stats().total.bytes_offloaded, 2 * x.nbytes());
  record_checkpoint_stats(false);
  EXPECT_TRUE(bitwise_equal(plain, torch::autograd::grad({y.sum()}, {x})[0]));
  ASSERT_EQ(strides.size(), 6U);  // plain, forward, recompute
  EXPECT_EQ(strides[2], strides[4]);
  EXPECT_EQ(strides[3], strides[5]);
}

TEST_F(Offload, ARegionThatIsDroppedFreesItsPages) {
  {
    const auto y = chain(fn_, input(), 3);
    EXPECT_GT(offload_use().host_bytes_in_use, 0);
  }
  EXPECT_EQ(offload_use().host_bytes_in_use, 0);
  EXPECT_GT(offload_use().host_bytes, 0);
  trim_offload_memory();
  EXPECT_EQ(offload_use().host_bytes, 0);
}

TEST_F(Offload, ExceptionsLeaveNothingBehind) {
  const auto plain = plain_gradient(fn_, 3);
  auto countdown = std::make_shared<int>(-1);
  const Fn throwing = [fn = fn_, countdown](at::Tensor x) {
    auto y = fn(std::move(x));
    if ((*countdown)-- == 0) {
      throw std::runtime_error("no more");
    }
    return y;
  };
  for (int throw_at = 0; throw_at < 3; ++throw_at) {  // in forward
    *countdown = throw_at;
    EXPECT_THROW(chain(throwing, input(), 3), std::runtime_error);
    EXPECT_EQ(offload_use().host_bytes_in_use, 0);
  }
  *countdown = -1;
  const auto x = input();
  const auto y = chain([throwing](at::Tensor h) { return throwing(h).sin(); }, x, 3);
  *countdown = 1;  // in the second recompute
  EXPECT_THROW(torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true), c10::Error);
  *countdown = -1;
  EXPECT_TRUE(
      bitwise_equal(plain_gradient([fn = fn_](at::Tensor h) { return fn(std::move(h)).sin(); }, 3),
                    torch::autograd::grad({y.sum()}, {x})[0]));
}

TEST_F(Offload, ABusThatFailsInForwardAndInBackwardLeavesNothingBehind) {
  tier_->fails = true;
  EXPECT_TRUE(contains(message_of<std::runtime_error>([&] { chain(fn_, input(), 2); }), "bus"));
  EXPECT_EQ(offload_use().host_bytes_in_use, 0);
  tier_->fails = false;
  const auto x = input();
  const auto y = chain(fn_, x, 3);
  tier_->fails = true;
  EXPECT_THROW(torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true), c10::Error);
  tier_->fails = false;
  const auto in_use = offload_use().host_bytes_in_use;
  const auto other = chain(fn_, input(), 1);  // still offloads
  EXPECT_GT(offload_use().host_bytes_in_use, in_use);
  EXPECT_TRUE(bitwise_equal(plain_gradient(fn_, 3), torch::autograd::grad({y.sum()}, {x})[0]));
  EXPECT_LE(offload_use().host_bytes_in_use, in_use);
}

TEST_F(Offload, AnInputThatChangesAfterItsRegionIsAnErrorAsBefore) {
  const auto x = input();
  const auto h = x.exp();
  const auto y = checkpoint({.offload_inputs = true}, fn_, h);
  {
    const torch::NoGradGuard no_grad;
    h.zero_();
  }
  EXPECT_TRUE(contains(message_of<c10::Error>([&] { y.sum().backward(); }), "in place"));
}

TEST_F(Offload, InputsThatTheRegionWritesStayAndViewsOfParametersToo) {
  const auto gradients = [](const CheckpointOptions* options) {
    const auto x = input();
    const auto weight = input();
    const auto fn = [](at::Tensor h, const at::Tensor& scratch, const at::Tensor& w) {
      {
        const torch::NoGradGuard no_grad;
        scratch.add_(1);
      }
      return torch::mm(h.sin(), w).exp() * scratch.detach();
    };
    auto y = x.exp();
    for (int i = 0; i < 2; ++i) {
      const auto scratch = (x * 2).t();
      y = options != nullptr ? checkpoint(*options, fn, y, scratch, weight.t())
                             : fn(y, scratch, weight.t());
    }
    return torch::autograd::grad({y.sum()}, {x, weight});
  };
  record_checkpoint_stats(true);
  reset_checkpoint_stats();
  const CheckpointOptions options{.offload_inputs = true};
  expect_bitwise_equal(gradients(nullptr), gradients(&options));
  record_checkpoint_stats(false);
  EXPECT_EQ(checkpoint_stats().total.bytes_offloaded, 2 * input().nbytes());
}

TEST_F(Offload, ThreadsTrainBesideEachOther) {
  const auto plain = plain_gradient(fn_, 4);
  std::vector<at::Tensor> gradients(4);
  std::vector<std::thread> threads;
  for (auto& gradient : gradients) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const auto x = input();
        gradient = torch::autograd::grad({chain(fn_, x, 4).sum()}, {x})[0];
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  for (const auto& gradient : gradients) {
    EXPECT_TRUE(bitwise_equal(plain, gradient));
  }
}

TEST(OffloadRefusals, NameWhatHasNoEffect) {
  const auto x = torch::ones({4}).requires_grad_();
  const Fn fn = [](at::Tensor h) { return h.exp(); };
  const auto message = [&](const CheckpointOptions& options) {
    return message_of<CheckpointError>(
        [&] { checkpoint(options, fn, x * torch::ones({1 << 15}).unsqueeze(1)); });
  };
  EXPECT_TRUE(contains(message({.offload_inputs = true}), "in host memory already"));
  EXPECT_TRUE(contains(message({.use_reentrant = true, .offload_inputs = true}), "reentrant"));
  EXPECT_TRUE(contains(message({.allow_lossy = true}), "without a policy"));
  EXPECT_TRUE(contains(message({.determinism_check = DeterminismCheck::Values,
                                .policy = policy::full(),
                                .allow_lossy = true}),
                       "DeterminismCheck"));
  EXPECT_TRUE(contains(
      message_of<CheckpointError>([&] {
        checkpoint([fn](at::Tensor h) { return checkpoint({.offload_inputs = true}, fn, h.sin()); },
                   x);
      }),
      "inside another region"));
}

}  // namespace
}  // namespace reprise::testing
