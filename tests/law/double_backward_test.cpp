// Gradients of gradients through regions.
#include "law/programs.h"

namespace reprise::testing {
namespace {

using torch::autograd::grad;

/// Gradient penalty: the squared gradient of f is part of the loss.
Program with_penalty(
    const std::function<at::Tensor(const Way&, const at::Tensor& w, at::Tensor)>& f) {
  return [f](const Way& way) {
    auto x = sine_leaf({4, 4}, 0, at::kDouble), w = sine_leaf({4, 4}, 1, at::kDouble);
    const auto y = f(way, w, x).sum();
    const auto slope = grad({y}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
    (y + slope.square().sum()).backward();
    return Tensors{y.detach(), slope.detach(), x.grad(), w.grad()};
  };
}

at::Tensor smooth_block(const at::Tensor& w, const at::Tensor& h) {
  return h.mm(w).tanh().exp();
}

TEST(LawDoubleBackward, AGradientPenalty) {
  law(with_penalty([](const Way& way, const at::Tensor& w, at::Tensor x) {
    return way([w](at::Tensor h) { return smooth_block(w, h); }, x);
  }));
}

TEST(LawDoubleBackward, APenaltyOverSeveralRegions) {
  law(with_penalty([](const Way& way, const at::Tensor& w, at::Tensor x) {
    const auto block = [w](at::Tensor h) { return smooth_block(w, h).sin(); };
    return way(block, way(block, way(block, x)));
  }));
}

TEST(LawDoubleBackward, APenaltyOverNestedRegions) {
  law(with_penalty([](const Way& way, const at::Tensor& w, at::Tensor x) {
    const auto block = [w](at::Tensor h) { return smooth_block(w, h).sin(); };
    return way([=](at::Tensor h) { return way(block, way(block, h).cos()); }, x);
  }));
}

TEST(LawDoubleBackward, APenaltyWithDropout) {
  law(with_penalty([](const Way& way, const at::Tensor& w, at::Tensor x) {
    return way([w](at::Tensor h) { return torch::dropout(smooth_block(w, h), 0.5, true).sin(); },
               x);
  }));
}

TEST(LawDoubleBackward, APenaltyWithBatchNorm) {
  law([](const Way& way) {
    torch::nn::BatchNorm1d norm(4);
    auto x = sine_leaf({8, 4});
    const auto y = way([norm](at::Tensor h) mutable { return norm(h).tanh(); }, x).square().sum();
    const auto slope = grad({y}, {x}, {}, true, true)[0];
    (y + slope.square().sum()).backward();
    return joined({x.grad()}, contents_of(*norm));
  });
}

TEST(LawDoubleBackward, APenaltyWithEveryMatmulKept) {
  law(with_penalty([](const Way& way, const at::Tensor& w, at::Tensor x) {
    return way.with([](CheckpointOptions& options) { options.policy = policy::save_matmuls(); },
                    [w](at::Tensor h) { return smooth_block(w, h); },
                    x);
  }));
}

TEST(LawDoubleBackward, TheThirdDerivative) {
  law([](const Way& way) {
    auto x = sine_leaf({4}, 0, at::kDouble);
    at::Tensor y = way([](at::Tensor h) { return h.sin().exp(); }, x).sum();
    Tensors seen;
    for (int order = 0; order < 3; ++order) {
      y = grad({y}, {x}, {}, true, true)[0].sum();
      seen.push_back(y.detach());
    }
    y.backward();
    seen.push_back(x.grad());
    return seen;
  });
}

TEST(LawDoubleBackward, AHessianVectorProduct) {
  law([](const Way& way) {
    auto x = sine_leaf({4}, 0, at::kDouble), w = sine_leaf({4}, 1, at::kDouble);
    const auto y = way([w](at::Tensor h) { return (h * w).tanh().exp(); }, x).sum();
    const auto first = grad({y}, {x, w}, {}, true, true);
    const auto dot = (first[0] * sines({4}, 2, at::kDouble)).sum() + first[1].square().sum();
    return grad({dot}, {x, w});
  });
}

TEST(LawDoubleBackward, TheGradientItselfIsComputedInARegion) {
  law([](const Way& way) {
    auto x = sine_leaf({4}, 0, at::kDouble), w = sine_leaf({4}, 1, at::kDouble);
    const auto force = [w](at::Tensor positions) {
      const auto energy = (positions * w).tanh().square().sum();
      return grad({energy}, {positions}, {}, true, true)[0];
    };
    const auto y = way(force, x.sin());
    y.square().sum().backward();
    return Tensors{y.detach(), x.grad(), w.grad()};
  });
}

TEST(LawDoubleBackward, OfARegionInsideTheRegionThatDifferentiates) {
  law([](const Way& way) {
    auto x = sine_leaf({4}, 0, at::kDouble), w = sine_leaf({4}, 1, at::kDouble);
    const auto force = [way, w](at::Tensor positions) {
      const auto energy =
          way([w](at::Tensor p) { return (p * w).tanh().square(); }, positions).sum();
      return grad({energy}, {positions}, {}, true, true)[0];
    };
    way(force, x.sin()).square().sum().backward();
    return Tensors{x.grad(), w.grad()};
  });
}

TEST(LawDoubleBackward, SecondBackwardOverFirstOrderAndSecondOrderParts) {
  law([](const Way& way) {
    auto x = sine_leaf({4}, 0, at::kDouble);
    const auto y = way([](at::Tensor h) { return h.sin().exp(); }, x).sum();
    const auto slope = grad({y}, {x}, {}, true, true)[0];
    slope.sum().backward({}, /*retain_graph=*/true);
    const auto second = x.grad().clone();
    y.backward();
    return Tensors{second, x.grad()};
  });
}

TEST(LawDoubleBackward, UnusedInputsOfTheInnerGradient) {
  law([](const Way& way) {
    auto x = sine_leaf({4}, 0, at::kDouble), z = sine_leaf({4}, 1, at::kDouble);
    const auto [a, b] =
        way([](at::Tensor u, at::Tensor v) { return std::pair(u.sin().exp(), v.tanh()); }, x, z);
    const auto slopes = grad({a.sum()}, {x, z}, {}, true, true, /*allow_unused=*/true);
    (slopes[0].square().sum() + b.sum()).backward();
    return Tensors{x.grad(), z.grad(), slopes[1]};
  });
}

TEST(LawDoubleBackward, AMetaLearningStep) {
  law([](const Way& way) {
    auto w = sine_leaf({4, 4}, 0, at::kDouble);
    const auto x = sines({4, 4}, 1, at::kDouble);
    at::Tensor fast = w;
    for (int step = 0; step < 2; ++step) {
      const auto loss = way([](at::Tensor h, at::Tensor v) { return h.mm(v).tanh(); }, x, fast);
      fast = fast - grad({loss.square().sum()}, {fast}, {}, true, true)[0] * 0.1;
    }
    way([](at::Tensor h, at::Tensor v) { return h.mm(v).tanh(); }, x, fast).sum().backward();
    return Tensors{w.grad()};
  });
}

// The reentrant variant cannot: it must say so.
TEST(LawDoubleBackward, IsRefusedByReentrantRegions) {
  refused(
      [](const Way& way) {
        auto x = sine_leaf({4});
        const auto y = way([](at::Tensor h) { return h.sin().exp(); }, x).sum();
        y.backward({}, /*retain_graph=*/true, /*create_graph=*/true);
        return Tensors{x.grad()};
      },
      "reentrant",
      {reentrant()});
}

}  // namespace
}  // namespace reprise::testing
