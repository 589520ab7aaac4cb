// What regions hold, and when they let go of it: not longer than plain training would.
#include "law/live_tensors.h"

#include <stdexcept>
#include <thread>

namespace reprise::testing {
namespace {

TEST(LawLifetimes, ARegionThatSavesNothingHoldsNothing) {
  in_every_way(
      [](const Way& way) {
        auto x = sine_leaf({kBig});
        auto activation = x * 1;
        const auto watched = weak(activation);
        const auto y = way([](at::Tensor h) { return h + 1; }, std::move(activation));
        activation.reset();
        EXPECT_TRUE(watched.expired());
        y.sum().backward();
        EXPECT_TRUE(bitwise_equal(x.grad(), torch::ones({kBig})));
      },
      ways());
}

TEST(LawLifetimes, ARegionWhoseSavedTensorsAreKeptByNobodyHoldsNothing) {
  in_every_way(
      [](const Way& way) {
        auto x = sine_leaf({kBig});
        auto activation = x * 1;
        const auto watched = weak(activation);
        const auto y = way([](at::Tensor h) { return std::pair(h.tanh().sum().detach(), h + 1); },
                           std::move(activation));
        activation.reset();
        EXPECT_TRUE(watched.expired());
      },
      ways());
}

TEST(LawLifetimes, InputsAreFreedByBackward) {
  in_every_way([](const Way& way) {
    auto x = sine_leaf({kBig});
    auto activation = x * 1;
    const auto watched = weak(activation);
    const auto y = way([](at::Tensor h) { return h.tanh().exp(); }, std::move(activation));
    activation.reset();
    y.sum().backward();
    EXPECT_TRUE(watched.expired()) << "y is alive, its graph has run";
  });
}

TEST(LawLifetimes, InputsThatNoGradientNeedsAreFreedByBackward) {
  in_every_way([](const Way& way) {
    auto x = sine_leaf({kBig});
    auto mask = sines({kBig}, 1);
    const auto watched = weak(mask);
    const auto y = way([](at::Tensor h, at::Tensor m) { return (h * m).tanh(); }, x, mask);
    mask.reset();
    y.sum().backward();
    EXPECT_TRUE(watched.expired());
  });
}

TEST(LawLifetimes, CapturesAreFreedByBackward) {
  in_every_way([](const Way& way) {
    auto x = sine_leaf({kBig});
    auto mask = sines({kBig}, 1);
    const auto watched = weak(mask);
    const auto y = way([mask](at::Tensor h) { return (h * mask).tanh(); }, x);
    mask.reset();
    y.sum().backward();
    EXPECT_TRUE(watched.expired());
  });
}

TEST(LawLifetimes, InputsAreFreedWithADroppedGraph) {
  in_every_way([](const Way& way) {
    const auto before = live_tensors();
    {
      auto x = sine_leaf({kBig});
      const auto y = way([](at::Tensor h) { return h.tanh().exp(); }, x * 1);
    }
    EXPECT_EQ(live_tensors(), before);
  });
}

TEST(LawLifetimes, ARetainedGraphHoldsWhatItHeldBeforeBackward) {
  in_every_way([](const Way& way) {
    auto x = sine_leaf({kBig});
    const auto loss = way([](at::Tensor h) { return h.tanh().exp().sin(); }, x * 1).sum();
    loss.backward({}, /*retain_graph=*/true);
    const auto after_first = live_tensors();
    loss.backward({}, /*retain_graph=*/true);
    EXPECT_EQ(live_tensors(), after_first);
  });
}

TEST(LawLifetimes, RecomputedTensorsAreGoneAfterEveryBackward) {
  for (const auto& way : ways()) {
    SCOPED_TRACE(way.name());
    auto x = sine_leaf({kBig});
    x.mutable_grad() = torch::zeros({kBig});
    const auto loss = way([](at::Tensor h) { return h.tanh().exp().sin(); }, x * 1).sum();
    const auto before = live_tensors();
    loss.backward({}, /*retain_graph=*/true);
    EXPECT_EQ(live_tensors(), before);
  }
}

TEST(LawLifetimes, AGroupLetsGoAtItsEnd) {
  for (const auto& way : ways()) {
    SCOPED_TRACE(way.name());
    auto x = sine_leaf({kBig});
    x.mutable_grad() = torch::zeros({kBig});
    const auto fn = [](at::Tensor h) { return std::pair(h.tanh().exp(), h.sin().exp()); };
    const auto [a, b] = way(fn, x * 1);
    const auto first = a.sum(), second = b.sum();
    const auto before = live_tensors();
    {
      const GraphExecGroup group;
      first.backward({}, /*retain_graph=*/true);
      second.backward({}, /*retain_graph=*/true);
    }
    EXPECT_EQ(live_tensors(), before);
  }
}

TEST(LawLifetimes, AnExceptionInForwardLeaksNothing) {
  in_every_way([](const Way& way) {
    auto x = sine_leaf({kBig});
    const auto before = live_tensors();
    for (int stop = 0; stop < 4; ++stop) {
      const auto fn = [stop](at::Tensor h) {
        for (int i = 0; i < 4; ++i) {
          h = h.tanh();
          if (i == stop) {
            throw std::runtime_error("forward failed");
          }
        }
        return h;
      };
      EXPECT_THROW(way(fn, x), std::runtime_error);
    }
    EXPECT_EQ(live_tensors(), before);
  });
}

TEST(LawLifetimes, AnExceptionInARecomputeLeaksNothing) {
  for (const auto& way : all_ways()) {
    SCOPED_TRACE(way.name());
    const auto before = live_tensors();
    {
      auto x = sine_leaf({kBig});
      auto runs = std::make_shared<int>(0);
      const auto fn = [runs](at::Tensor h) {
        h = h.tanh().exp();
        if (++*runs == 2) {
          throw std::runtime_error("recompute failed");
        }
        return h.sin();
      };
      const auto loss = way(fn, x).sum();
      EXPECT_THROW(loss.backward(), c10::Error);
      EXPECT_LE(live_tensors(), before + 2 + 4) << "x and what a policy keeps";
    }
    EXPECT_EQ(live_tensors(), before);
  }
}

struct HoardingModule : torch::nn::Module {
  at::Tensor forward(at::Tensor h) { return (last = h.tanh()) * 2; }
  at::Tensor last;
};

TEST(LawLifetimes, ACycleThroughAModuleIsFreedByBackward) {
  in_every_way([](const Way& way) {
    const auto before = live_tensors();
    {
      auto x = sine_leaf({kBig});
      const auto module = std::make_shared<HoardingModule>();
      way([module](at::Tensor h) { return module->forward(h); }, x).sum().backward();
    }
    EXPECT_EQ(live_tensors(), before);
  });
}

TEST(LawLifetimes, ARegionOfAFinishedThreadIsFreedElsewhere) {
  in_every_way([](const Way& way) {
    const auto before = live_tensors();
    {
      auto x = sine_leaf({kBig});
      at::Tensor y;
      std::thread([&] { y = way([](at::Tensor h) { return h.tanh().exp(); }, x * 1); }).join();
      y.sum().backward();
    }
    EXPECT_EQ(live_tensors(), before);
  });
}

TEST(LawLifetimes, NothingIsLeftOfManySteps) {
  in_every_way([](const Way& way) {
    auto x = sine_leaf({kBig}), buffer = torch::zeros({kBig});
    auto block = [buffer](at::Tensor h) mutable {
      buffer.add_(h.detach());
      return torch::dropout(h.tanh(), 0.5, true).exp();
    };
    const auto step = [&] { way(block, way(block, x).sin()).sum().backward(); };
    step();
    const auto before = live_tensors();
    for (int i = 0; i < 20; ++i) {
      step();
    }
    EXPECT_EQ(live_tensors(), before);
  });
}

}  // namespace
}  // namespace reprise::testing
