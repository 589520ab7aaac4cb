// Long chains of regions: they stay flat where plain chains do, and are freed without recursion.
#include "law/live_tensors.h"

namespace reprise::testing {
namespace {

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

TEST(LawChains, ARecurrentChainThatIsDetachedOutsideStaysFlat) {
  stays_flat([](const Way& way, const at::Tensor& w, at::Tensor h) {
    return way([w](at::Tensor v) { return (v * w).tanh(); }, h.detach().set_requires_grad(true));
  });
}

TEST(LawChains, ARecurrentChainThatIsDetachedInsideStaysFlat) {
  stays_flat(
      [](const Way& way, const at::Tensor& w, at::Tensor h) {
        return way([w](at::Tensor v) { return (v.detach() * w).tanh(); }, h);
      },
      ways());
}

TEST(LawChains, ARecurrentChainThatIsDetachedInsideAnInnerRegionStaysFlat) {
  stays_flat(
      [](const Way& way, const at::Tensor& w, at::Tensor h) {
        const auto inner = [w](at::Tensor v) { return (v.detach() * w).tanh(); };
        return way([way, inner](at::Tensor v) { return way(inner, v).sin(); }, h);
      },
      ways());
}

TEST(LawChains, AChainThatIsCutByNoGradStaysFlat) {
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

TEST(LawChains, AChainWhoseStateIsOneOfTwoArgumentsStaysFlat) {
  stays_flat(
      [](const Way& way, const at::Tensor& w, at::Tensor h) {
        return way([](at::Tensor v, at::Tensor s) { return (v.detach() * s).tanh(); }, h, w);
      },
      ways());
}

TEST(LawChains, AChainInAVectorOfTensorsStaysFlat) {
  stays_flat(
      [](const Way& way, const at::Tensor& w, at::Tensor h) {
        const auto fn = [w](std::vector<at::Tensor> v) { return (v[0].detach() * w).tanh(); };
        return way(fn, std::vector<at::Tensor>{h});
      },
      ways());
}

TEST(LawChains, ADetachedChainTrainsLikeAPlainOne) {
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

TEST(LawChains, ALongAttachedChainIsFreedWithoutDeepRecursion) {
  for (const auto& way : {ways().front(), reentrant()}) {
    auto x = sine_leaf({2});
    at::Tensor h = x;
    for (int i = 0; i < kLinks; ++i) {
      h = way([](at::Tensor v) { return v.tanh(); }, h);
    }
    h.reset();
  }
}

TEST(LawChains, ALongAttachedChainIsDifferentiated) {
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

TEST(LawChains, ALongDetachedChainIsFreedWithoutDeepRecursion) {
  auto w = sine_leaf({2});
  at::Tensor h = sine_leaf({2}, 1);
  for (int i = 0; i < kLinks; ++i) {
    h = checkpoint([w](at::Tensor v) { return (v.detach() * w).tanh(); }, h);
  }
  h.sum().backward();
  EXPECT_TRUE(w.grad().defined());
}

TEST(LawChains, ALongChainThroughCapturesIsFreedWithoutDeepRecursion) {
  at::Tensor h = sine_leaf({2}, 1);
  for (int i = 0; i < kLinks; ++i) {
    h = checkpoint([h] { return h.tanh(); });
  }
  h.reset();
}

}  // namespace
}  // namespace reprise::testing
