// Several threads: parallel backward calls over one graph, regions made and freed on other threads,
// groups and plans while others train.
#include "law/programs.h"

#include <atomic>
#include <barrier>
#include <thread>

namespace reprise::testing {
namespace {

/// Runs `work(i)` on `count` threads that begin together.
void on_threads(int count, const std::function<void(int)>& work) {
  std::barrier start(count);
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      work(i);
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

at::Tensor trunk_block(const at::Tensor& w, at::Tensor h) {
  for (int i = 0; i < 5; ++i) {
    h = h.mm(w).tanh();
  }
  return h;
}

TEST(LawParallelBackward, OneRegionIsRecomputedByManyThreads) {
  law([](const Way& way) {
    auto x = sine_leaf({16, 16}), w = sine_leaf({16, 16}, 1);
    const auto y = way([w](at::Tensor h) { return trunk_block(w, h); }, x);
    Tensors gradients(8);
    on_threads(4, [&](int i) {
      const auto loss = (y * (i + 1)).sum();
      const auto both = torch::autograd::grad({loss}, {x, w}, {}, /*retain_graph=*/true);
      gradients[static_cast<size_t>(2 * i)] = both[0];
      gradients[static_cast<size_t>(2 * i + 1)] = both[1];
    });
    return gradients;
  });
}

TEST(LawParallelBackward, ARegionWithABufferAndDropoutIsRecomputedByManyThreads) {
  law([](const Way& way) {
    auto x = sine_leaf({16, 16}), counter = torch::zeros({16});
    const auto fn = [counter](at::Tensor h) {
      at::Tensor written = counter;
      written.add_(1);
      h = torch::dropout(h.tanh(), 0.5, true) * counter.clone();
      written.mul_(2);
      return h.exp() * counter.clone();
    };
    const auto y = way(fn, x);
    Tensors gradients(4);
    on_threads(4, [&](int i) {
      gradients[static_cast<size_t>(i)] =
          torch::autograd::grad({(y * (i + 1)).sum()}, {x}, {}, /*retain_graph=*/true)[0];
    });
    return joined(gradients, {counter});
  });
}

TEST(LawParallelBackward, NestedRegionsAreRecomputedByManyThreads) {
  law([](const Way& way) {
    auto x = sine_leaf({16, 16}), w = sine_leaf({16, 16}, 1);
    const auto inner = [w](at::Tensor h) { return trunk_block(w, h); };
    const auto outer = [way, inner](at::Tensor h) { return way(inner, way(inner, h.sin()).cos()); };
    const auto y = way(outer, x);
    Tensors gradients(4);
    on_threads(4, [&](int i) {
      gradients[static_cast<size_t>(i)] =
          torch::autograd::grad({(y * (i + 1)).sum()}, {w}, {}, /*retain_graph=*/true)[0];
    });
    return gradients;
  });
}

TEST(LawParallelBackward, DifferentOutputsOfOneRegion) {
  law([](const Way& way) {
    auto x = sine_leaf({16, 16}), w = sine_leaf({16, 16}, 1);
    const auto fn = [w](at::Tensor h) {
      const auto shared = trunk_block(w, h);
      return std::pair(shared.exp(), shared.sin());
    };
    const auto [a, b] = way(fn, x);
    const auto first = a.sum(), second = b.sum();
    on_threads(2, [&, one = first, two = second](int i) {
      (i == 0 ? one : two).backward({}, /*retain_graph=*/true);
    });
    return Tensors{x.grad(), w.grad()};  // the sum of two, in either order
  });
}

TEST(LawParallelBackward, ForwardsOnThreadsAndOneBackward) {
  law([](const Way& way) {
    auto w = sine_leaf({16, 16}, 1);
    Tensors results(4);
    on_threads(4, [&](int i) {
      const auto fn = [w](at::Tensor h) { return trunk_block(w, h); };
      results[static_cast<size_t>(i)] = way(fn, sines({16, 16}, i));
    });
    torch::stack(results).sum().backward();
    return Tensors{w.grad()};
  });
}

TEST(LawParallelBackward, ManyModelsTrainSideBySide) {
  law([](const Way& way) {
    Tensors weights;
    for (int i = 0; i < 4; ++i) {
      weights.push_back(sine_leaf({16, 16}, i));
    }
    on_threads(4, [&](int i) {
      auto w = weights[static_cast<size_t>(i)];
      torch::optim::SGD sgd({w}, 0.1);
      for (int step = 0; step < 20; ++step) {
        const auto fn = [w](at::Tensor h) { return trunk_block(w, h); };
        way(fn, sine_leaf({16, 16}, step)).sum().backward();
        sgd.step();
        sgd.zero_grad();
      }
    });
    return weights;
  });
}

TEST(LawParallelBackward, PartOfARegionRunsOnAnotherThread) {
  law([](const Way& way) {
    auto x = sine_leaf({16, 16});
    const auto fn = [](at::Tensor h) {
      h = h.tanh();
      at::Tensor elsewhere;
      std::thread([&] { elsewhere = h.exp().sin(); }).join();
      return (h * elsewhere).cos();
    };
    way(fn, x).sum().backward();
    return Tensors{x.grad()};
  });
}

TEST(LawParallelBackward, ARegionRunsOnAnotherThreadInsideARegion) {
  law([](const Way& way) {
    auto x = sine_leaf({16, 16});
    const auto inner = [](at::Tensor h) { return h.exp().sin(); };
    const auto fn = [way, inner](at::Tensor h) {
      h = h.tanh();
      at::Tensor elsewhere;
      std::thread([&] { elsewhere = way(inner, h); }).join();
      return (h * elsewhere).cos();
    };
    way(fn, x).sum().backward();
    return Tensors{x.grad()};
  });
}

TEST(LawParallelBackward, AGroupIsDestroyedOnAnotherThread) {
  law([](const Way& way) {
    auto x = sine_leaf({16, 16});
    const auto fn = [](at::Tensor h) { return std::pair(h.tanh().exp(), h.sin().exp()); };
    const auto [a, b] = way(fn, x);
    const auto first = a.sum(), second = b.sum();
    auto group = std::make_unique<GraphExecGroup>();
    first.backward({}, /*retain_graph=*/true);
    std::thread([&] { group.reset(); }).join();
    {
      const GraphExecGroup next;  // the first is over
      second.backward();
    }
    return Tensors{x.grad()};
  });
}

TEST(LawParallelBackward, AGroupDestroyedOnAnotherThreadLeavesThatThreadsGroupAlone) {
  auto runs = std::make_shared<std::atomic<int>>(0);
  auto x = sine_leaf({16});
  const auto fn = [runs](at::Tensor h) {
    ++*runs;
    return std::pair(h.tanh().exp(), h.sin().exp());
  };
  const auto [a, b] = checkpoint(fn, x);
  const auto first = a.sum(), second = b.sum();
  auto elsewhere = std::make_unique<GraphExecGroup>();
  std::thread([&, one = first, two = second] {
    const GraphExecGroup own;
    one.backward({}, /*retain_graph=*/true);
    elsewhere.reset();
    two.backward();
  }).join();
  EXPECT_EQ(*runs, 2) << "one forward, one recompute for the thread's whole group";
}

TEST(LawParallelBackward, AGroupOfOneThreadDoesNotMatterToAnother) {
  law([](const Way& way) {
    auto x = sine_leaf({16});
    const auto loss = way([](at::Tensor h) { return h.tanh().exp(); }, x).sum();
    const GraphExecGroup group;
    std::thread([&] { loss.backward({}, /*retain_graph=*/true); }).join();
    loss.backward();
    return Tensors{x.grad()};
  });
}

/// A step of three regions.
void planned_step(const at::Tensor& w, const at::Tensor& x) {
  at::Tensor h = x;
  for (int i = 0; i < 3; ++i) {
    h = checkpoint(
        {.name = "planned"}, [w](at::Tensor v) { return trunk_block(w, v); }, h);
  }
  h.sum().backward();
}

TEST(LawParallelBackward, AStepIsPlannedWhileOthersTrain) {
  auto w = sine_leaf({64, 64}, 1);
  const auto x = sines({64, 64});
  const PlanOptions options{.budget = int64_t{1} << 30};
  const auto alone = plan([&] { planned_step(w, x); }, at::kCPU, options);

  std::atomic<bool> is_planned{false};
  std::atomic<int> steps{0};
  auto other = sine_leaf({64, 64}, 2);
  {
    const std::jthread training([&] {
      do {
        planned_step(other, sines({64, 64}, 3));
        ++steps;
      } while (!is_planned);
    });
    const Restored<bool> ended(true, [&](bool is_over) { is_planned = is_over; });
    while (steps == 0) {
      std::this_thread::yield();
    }
    for (int i = 0; i < 5; ++i) {
      try {
        const auto beside = plan([&] { planned_step(w, x); }, at::kCPU, options);
        EXPECT_EQ(beside.decisions().size(), alone.decisions().size());
        // malloc rounds some requests otherwise where threads share it.
        EXPECT_NEAR(static_cast<double>(beside.peak_bytes()),
                    static_cast<double>(alone.peak_bytes()),
                    static_cast<double>(alone.peak_bytes()) * 0.005)
            << "bytes of another thread";
      } catch (const std::exception& error) {
        EXPECT_TRUE(contains(error.what(), "thread")) << "an error that names the cause";
      }
    }
  }
  auto expected = sine_leaf({64, 64}, 2);
  for (int i = 0; i < steps; ++i) {
    planned_step(expected, sines({64, 64}, 3));
  }
  EXPECT_TRUE(bitwise_equal(other.grad(), expected.grad()));
  EXPECT_FALSE(w.grad().defined()) << "planning leaves gradients as they were";
}

TEST(LawParallelBackward, APlanOfOneThreadDoesNotMatterToAnother) {
  auto w = sine_leaf({64, 64}, 1), other = sine_leaf({64, 64}, 2);
  const auto x = sines({64, 64});
  const auto full = plan([&] { planned_step(w, x); }, at::kCPU, {.budget = int64_t{1} << 30});
  const PlanGuard use(full);
  std::thread([&] {
    for (int i = 0; i < 5; ++i) {
      planned_step(other, x);  // more regions than planned
    }
  }).join();
  planned_step(w, x);
  use.finish();
  auto expected = sine_leaf({64, 64}, 1);
  at::Tensor h = x;
  for (int i = 0; i < 3; ++i) {
    h = trunk_block(expected, h);
  }
  h.sum().backward();
  EXPECT_TRUE(bitwise_equal(w.grad(), expected.grad()));
}

TEST(LawParallelBackward, AThreadEndsInsideARegionByAnException) {
  law([](const Way& way) {
    auto x = sine_leaf({16});
    std::thread([&] {
      const auto failing = [](at::Tensor h) {
        h = h.tanh();
        throw std::runtime_error("on a thread");
        return h;
      };
      EXPECT_THROW(way(failing, x), std::runtime_error);
    }).join();
    way([](at::Tensor h) { return h.tanh().exp(); }, x).sum().backward();
    return Tensors{x.grad()};
  });
}

}  // namespace
}  // namespace reprise::testing
