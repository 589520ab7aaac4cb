// What regions hold, and when they let go of it: not longer than plain training would.
#include "law/programs.h"

#include <stdexcept>
#include <thread>

namespace reprise::testing {
namespace {

constexpr int64_t kBig = 64 * 1024;  // floats

using WeakBytes = c10::weak_intrusive_ptr<c10::StorageImpl>;

WeakBytes weak(const at::Tensor& tensor) {
  return tensor.storage().getWeakStorageImpl();
}

/// Live bytes in tensors of kBig floats, rounded.
int64_t live_tensors() {
  return (live_bytes(at::kCPU) + 2 * kBig) / (4 * kBig);
}

/// Calls `test` in every way, the plain one included: what it claims holds there, too.
void in_every_way(const std::function<void(const Way&)>& test,
                  const std::vector<Way>& others = all_ways()) {
  test(Way());
  for (const auto& way : others) {
    SCOPED_TRACE(way.name());
    test(way);
  }
}

/// The live tensors do not grow over a chain of `link`s, and it computes what plain links do.
void stays_flat(
    const std::function<at::Tensor(const Way&, const at::Tensor& w, at::Tensor h)>& link,
    const std::vector<Way>& others = all_ways()) {
  in_every_way(
      [&](const Way& way) {
        const auto w = sine_leaf({kBig});
        at::Tensor h = sine_leaf({kBig}, 1);
        int64_t after_few = 0;
        for (int i = 0; i < 40; ++i) {
          h = link(way, w, h);
          if (i == 5) {
            after_few = live_tensors();
          }
        }
        EXPECT_LE(live_tensors(), after_few);
      },
      others);
}

TEST(LawLifetimes, ARecurrentChainThatIsDetachedOutsideStaysFlat) {
  stays_flat([](const Way& way, const at::Tensor& w, at::Tensor h) {
    return way([w](at::Tensor v) { return (v * w).tanh(); }, h.detach().set_requires_grad(true));
  });
}

TEST(LawLifetimes, ARecurrentChainThatIsDetachedInsideStaysFlat) {
  stays_flat(
      [](const Way& way, const at::Tensor& w, at::Tensor h) {
        return way([w](at::Tensor v) { return (v.detach() * w).tanh(); }, h);
      },
      ways());
}

TEST(LawLifetimes, ARecurrentChainThatIsDetachedInsideAnInnerRegionStaysFlat) {
  stays_flat(
      [](const Way& way, const at::Tensor& w, at::Tensor h) {
        const auto inner = [w](at::Tensor v) { return (v.detach() * w).tanh(); };
        return way([way, inner](at::Tensor v) { return way(inner, v).sin(); }, h);
      },
      ways());
}

TEST(LawLifetimes, AChainThatIsCutByNoGradStaysFlat) {
  stays_flat(
      [](const Way& way, const at::Tensor& w, at::Tensor h) {
        return way(
            [w](at::Tensor v) {
              at::Tensor state;
              {
                const torch::NoGradGuard no_grad;
                state = v.sin();
              }
              return (state * w).tanh();
            },
            h);
      },
      ways());
}

TEST(LawLifetimes, AChainWhoseStateIsOneOfTwoArgumentsStaysFlat) {
  stays_flat(
      [](const Way& way, const at::Tensor& w, at::Tensor h) {
        return way([](at::Tensor v, at::Tensor s) { return (v.detach() * s).tanh(); }, h, w);
      },
      ways());
}

TEST(LawLifetimes, AChainInAVectorOfTensorsStaysFlat) {
  stays_flat(
      [](const Way& way, const at::Tensor& w, at::Tensor h) {
        const auto fn = [w](std::vector<at::Tensor> v) { return (v[0].detach() * w).tanh(); };
        return way(fn, std::vector<at::Tensor>{h});
      },
      ways());
}

TEST(LawLifetimes, ADetachedChainTrainsLikeAPlainOne) {
  law([](const Way& way) {
    auto w = sine_leaf({8});
    at::Tensor h = sine_leaf({8}, 1), total = torch::zeros({});
    for (int i = 0; i < 5; ++i) {
      h = way([w](at::Tensor v) { return (v.detach() * w).tanh(); }, h);
      total = total + h.sum();
    }
    total.backward();
    return Tensors{w.grad(), h.detach()};
  });
}

constexpr int kLinks = 20'000;

TEST(LawLifetimes, ALongAttachedChainIsFreedWithoutDeepRecursion) {
  for (const auto& way : {ways().front(), reentrant()}) {
    auto x = sine_leaf({2});
    at::Tensor h = x;
    for (int i = 0; i < kLinks; ++i) {
      h = way([](at::Tensor v) { return v.tanh(); }, h);
    }
    h.reset();
  }
}

TEST(LawLifetimes, ALongAttachedChainIsDifferentiated) {
  const auto program = [](const Way& way) {
    auto x = sine_leaf({2});
    at::Tensor h = x;
    for (int i = 0; i < kLinks; ++i) {
      h = way([](at::Tensor v) { return v.sin() * 1.001; }, h);
    }
    h.sum().backward();
    return Tensors{x.grad()};
  };
  law(program, {ways().front()});
}

TEST(LawLifetimes, ALongDetachedChainIsFreedWithoutDeepRecursion) {
  auto w = sine_leaf({2});
  at::Tensor h = sine_leaf({2}, 1);
  for (int i = 0; i < kLinks; ++i) {
    h = checkpoint([w](at::Tensor v) { return (v.detach() * w).tanh(); }, h);
  }
  h.sum().backward();
  EXPECT_TRUE(w.grad().defined());
}

TEST(LawLifetimes, ALongChainThroughCapturesIsFreedWithoutDeepRecursion) {
  at::Tensor h = sine_leaf({2}, 1);
  for (int i = 0; i < kLinks; ++i) {
    h = checkpoint([h] { return h.tanh(); });
  }
  h.reset();
}

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
