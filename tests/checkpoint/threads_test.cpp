// Threads: forward on one and backward on another, several models at once, graphs used and dropped
// elsewhere. Each result is compared bitwise with the same work done by one thread.
#include "checkpoint/small_graphs.h"
#include "support/bitwise.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <barrier>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

void on_another_thread(const std::function<void()>& fn) {
  std::exception_ptr failure;
  std::thread thread([&] {
    try {
      fn();
    } catch (...) {
      failure = std::current_exception();
    }
  });
  thread.join();
  if (failure) {
    std::rethrow_exception(failure);
  }
}

/// Runs `fn(i)` for i below `count`, all at once.
void all_at_once(size_t count, const std::function<void(size_t)>& fn) {
  std::barrier start(static_cast<std::ptrdiff_t>(count));
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> failures(count);
  for (size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      try {
        fn(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  for (const auto& failure : failures) {
    if (failure) {
      std::rethrow_exception(failure);
    }
  }
}

TEST(Threads, ForwardOnOneAndBackwardOnAnother) {
  for (const bool reentrant : {false, true}) {
    const auto run = [reentrant](bool checkpointed) {
      torch::manual_seed(7);
      const auto x = float_leaf({8, 8}, 1);
      torch::nn::BatchNorm1d norm(8);
      auto fn = [norm](at::Tensor h) mutable {
        return torch::dropout(norm(h).exp(), 0.3, true).sin();
      };
      at::Tensor y;
      on_another_thread([&] {
        y = checkpointed ? checkpoint({.use_reentrant = reentrant}, fn, x) : fn(x);
        y = checkpointed ? checkpoint({.use_reentrant = reentrant}, fn, y) : fn(y);
      });
      on_another_thread([&] { y.sum().backward(); });
      return std::vector<at::Tensor>{y, x.grad(), norm->running_var, torch::rand({3})};
    };
    expect_bitwise_equal(run(false), run(true));
  }
}

TEST(Threads, ErrorsNameTheOperatorOfTheOtherThread) {
  const auto x = float_leaf({4}, 1);
  at::Tensor y;
  on_another_thread([&] {
    y = checkpoint(
        {.name = "elsewhere"},
        [](at::Tensor h) {
          auto z = h.exp();
          z.add_(1);
          return z.sin();
        },
        x);
  });
  const auto message = message_of<CheckpointError>([&] { y.sum().backward(); });
  EXPECT_TRUE(contains(message, "region \"elsewhere\" by ExpBackward0"));
}

/// A few steps of a model with buffers and random numbers of its own generator.
std::vector<at::Tensor> train(uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  const auto weight = float_leaf({8, 8}, seed), bias = float_leaf({8}, seed + 100);
  const auto average = torch::zeros({8});
  const CheckpointOptions options{.generators = {generator}, .name = std::to_string(seed)};
  auto selective = options;
  selective.policy = policy::save_matmuls();
  std::vector<at::Tensor> losses;
  for (int step = 0; step < 6; ++step) {
    const auto fn = [=](at::Tensor h) {
      h = torch::mm(h, weight).add_(bias).tanh();
      average.mul_(0.9).add_(h.detach().mean(0), 0.1);
      return h * (torch::rand(h.sizes(), generator) > 0.2) + average.clone();
    };
    const auto nested = [=](at::Tensor h) { return checkpoint(options, fn, h.sin()); };
    auto h = torch::randn({4, 8}, generator);
    h = checkpoint(options, fn, h);
    h = checkpoint(selective, fn, h);
    h = checkpoint(options, nested, h);
    const auto loss = h.square().mean();
    loss.backward();
    losses.push_back(loss.detach());
    torch::NoGradGuard no_grad;
    for (const auto& parameter : {weight, bias}) {
      parameter.sub_(parameter.grad() * 0.1);
      parameter.grad().zero_();
    }
  }
  losses.insert(losses.end(), {weight.detach(), bias.detach(), average});
  return losses;
}

TEST(Threads, ModelsTrainedAtOnceEqualTheirSerialRuns) {
  constexpr size_t kModels = 4;
  std::vector<std::vector<at::Tensor>> serial, parallel(kModels);
  for (size_t i = 0; i < kModels; ++i) {
    serial.push_back(train(i));
  }
  all_at_once(kModels, [&](size_t i) { parallel[i] = train(i); });
  for (size_t i = 0; i < kModels; ++i) {
    SCOPED_TRACE(i);
    expect_bitwise_equal(serial[i], parallel[i]);
  }
}

TEST(Threads, BackwardAtOnceOverDisjointPartsOfOneRegion) {
  // Both calls recompute the same region, each for itself.
  for (int round = 0; round < 20; ++round) {
    const auto a = float_leaf({16}, 1), b = float_leaf({16}, 2);
    const auto fn = [](at::Tensor p, at::Tensor q) {
      return std::make_pair(p.sin().exp(), q.tanh().exp());
    };
    const auto [first, second] = checkpoint(fn, a, b);
    all_at_once(
        2, [&, y = std::vector<at::Tensor>{first, second}](size_t i) { y[i].sum().backward(); });
    const auto c = float_leaf({16}, 1), d = float_leaf({16}, 2);
    const auto expected = fn(c, d);
    (expected.first.sum() + expected.second.sum()).backward();
    expect_bitwise_equal({c.grad(), d.grad()}, {a.grad(), b.grad()});
  }
}

TEST(Threads, RetainedGraphUsedByManyAtOnce) {
  const auto x = float_leaf({16}, 1);
  std::atomic<int> runs{0};
  const auto inner = [](at::Tensor h) { return h.exp().tanh(); };
  const auto y = checkpoint(
      [&runs, inner](at::Tensor h) {
        ++runs;
        return checkpoint(inner, h.sin()).cos();
      },
      x);
  const auto expected = torch::autograd::grad({inner(x.sin()).cos().sum()}, {x})[0];
  std::vector<at::Tensor> gradients(4);
  all_at_once(4, [&](size_t i) {
    gradients[i] = torch::autograd::grad({y}, {x}, {torch::ones_like(y)}, /*retain_graph=*/true)[0];
  });
  for (const auto& gradient : gradients) {
    EXPECT_TRUE(bitwise_equal(expected, gradient));
  }
  EXPECT_EQ(runs, 5);  // forward, and once for each call
}

TEST(Threads, AGraphDroppedOnAnotherThreadFreesItsRegion) {
  auto alive = std::make_shared<int>(0);
  const std::weak_ptr<int> region = alive;
  auto y = checkpoint(
      [alive = std::move(alive)](at::Tensor h) { return torch::dropout(h.exp(), 0.5, true); },
      float_leaf({4}, 1));
  EXPECT_FALSE(region.expired());
  on_another_thread([&y] { y = at::Tensor(); });
  EXPECT_TRUE(region.expired());
}

TEST(Threads, AnExceptionOnOneThreadDoesNotDisturbTheOthers) {
  const auto expected = train(1);
  std::vector<at::Tensor> parallel;
  all_at_once(2, [&](size_t i) {
    if (i == 0) {
      parallel = train(1);
      return;
    }
    for (int round = 0; round < 20; ++round) {
      bool fails = false;
      const auto y = checkpoint(
          [&fails](at::Tensor h) {
            h = h.exp();
            if (fails) {
              throw 1;
            }
            return h.sin();
          },
          float_leaf({8}, 3));
      fails = true;
      EXPECT_THROW(y.sum().backward(), CheckpointError);
    }
  });
  expect_bitwise_equal(expected, parallel);
}

TEST(Threads, TheFirstRegionsOfAProcessMayBeginAtOnce) {
  // Run alone, these are the first: no operator is observed yet.
  all_at_once(8, [](size_t) {
    const auto x = torch::ones({64, 64}).requires_grad_();
    const auto y =
        checkpoint([](const at::Tensor& h) { return torch::dropout(h.exp(), 0.3, true).sin(); }, x);
    y.sum().backward();
  });
}

/// Two backward calls over disjoint parts of one region.
size_t recomputes_of_two_calls() {
  const auto x = float_leaf({4, 4}, 1);
  const auto [y, z] = checkpoint(
      CheckpointOptions{.name = "grouped"},
      [](const at::Tensor& h) { return std::pair(h.exp(), h.tanh()); },
      x);
  record_checkpoint_stats(true);
  reset_checkpoint_stats();
  y.sum().backward();
  z.sum().backward();
  const auto recomputed = checkpoint_stats().regions.at("grouped").recomputed;
  record_checkpoint_stats(false);
  return recomputed;
}

TEST(Threads, AGraphExecGroupMayBeDestroyedOnAnother) {
  auto group = std::make_unique<GraphExecGroup>();
  on_another_thread([&] { group.reset(); });
  EXPECT_EQ(recomputes_of_two_calls(), 2U) << "the group is over";
  {
    const GraphExecGroup next;  // is not be refused
    EXPECT_EQ(recomputes_of_two_calls(), 1U);
    EXPECT_THROW(GraphExecGroup(), c10::Error);
  }
  EXPECT_EQ(recomputes_of_two_calls(), 2U);
}

TEST(Threads, AGraphExecGroupThatEndsElsewhereFreesWhatWasRecomputed) {
  track_cpu_memory();
  const auto x = torch::randn({256, 256}).requires_grad_();
  const auto y = checkpoint([](const at::Tensor& h) { return h.exp().sin().exp(); }, x);
  const auto halves = y.chunk(2);
  const auto in_backward = [&](std::unique_ptr<GraphExecGroup> group, bool ends_inside) {
    if (ends_inside) {
      // Between the two parts of one backward call, after the first has recomputed.
      halves[0].register_hook([&group](const at::Tensor& gradient) {
        on_another_thread([&] { group.reset(); });
        return gradient;
      });
    }
    torch::autograd::grad({halves[1].sum(), halves[0].sum()}, {x}, {}, /*retain_graph=*/true);
    on_another_thread([&] { group.reset(); });
  };
  in_backward(std::make_unique<GraphExecGroup>(), false);
  const auto before = live_bytes(c10::kCPU);
  in_backward(std::make_unique<GraphExecGroup>(), false);
  EXPECT_EQ(live_bytes(c10::kCPU), before);
  in_backward(std::make_unique<GraphExecGroup>(), true);
  EXPECT_LE(live_bytes(c10::kCPU), before + 4096);  // the hook
}

}  // namespace
}  // namespace reprise::testing
