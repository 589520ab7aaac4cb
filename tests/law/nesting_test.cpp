// Regions inside regions, with options that differ.
#include "law/programs.h"

#include <stdexcept>

namespace reprise::testing {
namespace {

at::Tensor noisy(at::Tensor h) {
  return torch::dropout(h.tanh(), 0.5, true) * 1.5;
}

/// `depth` regions around each other, each with work before and after the next.
at::Tensor nested_to(const Way& way, int depth, at::Tensor h) {
  if (depth == 0) {
    return noisy(h);
  }
  return way([way, depth](at::Tensor v) { return noisy(nested_to(way, depth - 1, noisy(v))); }, h);
}

TEST(LawNesting, ToAnyDepthWithDropoutOnEveryLevel) {
  for (const int depth : {2, 3, 6}) {
    law(
        [depth](const Way& way) {
          auto x = sine_leaf({16});
          const auto y = nested_to(way, depth, x);
          y.sum().backward();
          return Tensors{y.detach(), x.grad()};
        },
        all_ways());
  }
}

TEST(LawNesting, BackwardTwiceOverARetainedGraph) {
  law([](const Way& way) {
    auto x = sine_leaf({16});
    const auto loss = nested_to(way, 3, x).sum();
    loss.backward({}, /*retain_graph=*/true);
    const auto first = x.grad().clone();
    loss.backward();
    return Tensors{first, x.grad()};
  });
}

TEST(LawNesting, PlainInsideRegionsAndRegionsInsidePlain) {
  law([](const Way& way) {
    auto x = sine_leaf({16});
    at::Tensor h = x;
    for (int i = 0; i < 4; ++i) {
      h = i % 2 == 0 ? nested_to(way, 2, h) : noisy(h);
    }
    h.sum().backward();
    return Tensors{x.grad()};
  });
}

/// An outer and an inner region with options of their own.
Program nested_with(const CheckpointOptions& outer, const CheckpointOptions& inner) {
  return [=](const Way& way) {
    auto x = sine_leaf({4, 4}), w = sine_leaf({4, 4}, 1);
    const auto block = [w](at::Tensor h) { return noisy(h.mm(w)); };
    const auto outside = [=](at::Tensor h) {
      const auto set = [inner](CheckpointOptions& options) { options = inner; };
      h = way.with(set, block, block(h));
      return way.with(set, block, h.sin()).cos();
    };
    const auto set = [outer](CheckpointOptions& options) { options = outer; };
    const auto y = way.with(set, outside, x);
    y.sum().backward();
    return Tensors{y.detach(), x.grad(), w.grad()};
  };
}

TEST(LawNesting, EveryPairOfOptions) {
  const std::vector<CheckpointOptions> choices{
      {.name = "full"},
      {.early_stop = false, .name = "complete"},
      {.determinism_check = DeterminismCheck::Values, .name = "values"},
      {.determinism_check = DeterminismCheck::None, .name = "unchecked"},
      {.policy = policy::save_matmuls(), .name = "matmuls"},
      {.policy = policy::save_ops({"aten::tanh"}), .name = "tanh"},
      {.policy = keep_some(), .name = "some"}};
  for (const auto& outer : choices) {
    for (const auto& inner : choices) {
      SCOPED_TRACE(outer.name + " around " + inner.name);
      law(nested_with(outer, inner), {ways().front()});
    }
  }
}

TEST(LawNesting, AReentrantRegionInsideAndOutside) {
  const CheckpointOptions old{.use_reentrant = true, .name = "old"};
  law(nested_with({.name = "new"}, old), {ways().front()});
  law(nested_with(old, {.name = "new"}), {ways().front()});
  law(nested_with(old, old), {ways().front()});
}

TEST(LawNesting, AnInnerRegionUnderNoGrad) {
  law([](const Way& way) {
    auto x = sine_leaf({16});
    const auto outer = [way](at::Tensor h) {
      at::Tensor target;
      {
        const torch::NoGradGuard no_grad;
        target = nested_to(way, 2, h);
      }
      return (noisy(h) - target).square();
    };
    way(outer, x).sum().backward();
    return Tensors{x.grad()};
  });
}

TEST(LawNesting, BatchNormOnEveryLevel) {
  law(
      [](const Way& way) {
        torch::nn::BatchNorm1d outside(4), inside(4);
        auto x = sine_leaf({8, 4});
        auto inner = [inside](at::Tensor h) mutable { return inside(h).tanh(); };
        auto outer = [=](at::Tensor h) mutable {
          return outside(way(inner, way(inner, outside(h)) * 2)).tanh();
        };
        for (int step = 0; step < 2; ++step) {
          way(outer, x).square().sum().backward();
        }
        return joined({x.grad()}, joined(outside->buffers(), inside->buffers()));
      },
      all_ways());
}

TEST(LawNesting, AnInnerResultLeavesTheOuterRegionByTheSide) {
  law([](const Way& way) {
    auto x = sine_leaf({8});
    auto aside = std::make_shared<at::Tensor>();
    const auto outer = [way, aside](at::Tensor h) {
      const auto inner = way([](at::Tensor v) { return v.tanh().exp(); }, h.sin());
      if (!aside->defined()) {
        *aside = inner;
      }
      return inner.cos();
    };
    const auto y = way(outer, x);
    (y.sum() + aside->square().sum()).backward();
    return Tensors{x.grad()};
  });
}

TEST(LawNesting, OnlyOneOfTheInnerRegionsGetsAGradient) {
  law([](const Way& way) {
    auto x = sine_leaf({8});
    const auto outer = [way](at::Tensor h) {
      const auto a = way(noisy, h.sin());
      const auto b = way(noisy, h.cos());
      return std::pair(a.exp(), b.exp());
    };
    const auto [a, b] = way(outer, x);
    b.sum().backward({}, /*retain_graph=*/true);
    const auto first = x.grad().clone();
    a.sum().backward();
    return Tensors{first, x.grad()};
  });
}

TEST(LawNesting, AnInnerRegionFailsAndTheOuterCatches) {
  law([](const Way& way) {
    auto x = sine_leaf({8});
    const auto failing = [](at::Tensor h) {
      h = noisy(h).exp();
      if (h.defined()) {
        throw std::runtime_error("the inner region failed");
      }
      return h;
    };
    const auto outer = [way, failing](at::Tensor h) {
      try {
        h = way(failing, h.sin());
      } catch (const std::runtime_error&) {
        h = h.cos();
      }
      return noisy(h).exp();
    };
    way(outer, x).sum().backward();
    return Tensors{x.grad()};
  });
}

TEST(LawNesting, TheOuterRegionsInputGoesIntoEveryInnerRegion) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({8});
        const auto outer = [way](at::Tensor h) {
          auto sum = h;
          for (int i = 0; i < 3; ++i) {
            sum = way([](at::Tensor a, at::Tensor b) { return noisy(a * b); }, sum, h);
          }
          return sum;
        };
        way(outer, x).sum().backward();
        return Tensors{x.grad()};
      },
      all_ways());
}

TEST(LawNesting, AGroupOverNestedRegions) {
  law([](const Way& way) {
    auto x = sine_leaf({8});
    const auto outer = [way](at::Tensor h) {
      return std::pair(way(noisy, h).exp(), way(noisy, h.sin()).cos());
    };
    const auto [a, b] = way(outer, x);
    const GraphExecGroup group;
    a.sum().backward({}, /*retain_graph=*/true);
    b.sum().backward();
    return Tensors{x.grad()};
  });
}

TEST(LawNesting, ALoopWhoseLengthDependsOnValues) {
  law([](const Way& way) {
    auto x = sine_leaf({8});
    const auto outer = [way](at::Tensor h) {
      while (h.detach().abs().sum().item<float>() > 2) {
        h = way(noisy, h) * 0.7;
      }
      return h.exp();
    };
    way(outer, x).sum().backward();
    return Tensors{x.grad()};
  });
}

}  // namespace
}  // namespace reprise::testing
