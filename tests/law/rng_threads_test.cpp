// Random operators in regions while another thread draws from the same default generator. Which
// numbers a region gets depends on the threads, so these programs are not compared with a plain
// run: the gradient must belong to the numbers that forward itself drew.
#include "law/drawing_thread.h"
#include "law/law.h"

namespace reprise::testing {
namespace {

constexpr int kRounds = 150;

/// A result and the gradient of its sum for an input of ones.
struct Drawn {
  at::Tensor result, input;
};

Drawn run_drawing(const Way& way, const Fn& fn, double value = 1) {
  auto x = torch::full({8}, value, torch::kDouble).set_requires_grad(true);
  auto y = way(fn, x);
  y.sum().backward();
  return {y.detach(), x};
}

/// `fn` multiplies each element of its input by a random number: so does its gradient.
void factor_is_forwards(const Fn& fn, double value = 1, const std::vector<Way>& in = all_ways()) {
  const DrawingThread other;
  for (const auto& way : in) {
    SCOPED_TRACE(way.name());
    for (int i = 0; i < kRounds; ++i) {
      const auto [y, x] = run_drawing(way, fn, value);
      ASSERT_TRUE(bitwise_equal(x.grad() * value, y)) << "round " << i;
    }
  }
}

/// `fn` is linear, with random coefficients: gradient times input has the sum of the result.
void sum_is_forwards(const Fn& fn) {
  const DrawingThread other;
  for (const auto& way : all_ways()) {
    SCOPED_TRACE(way.name());
    for (int i = 0; i < kRounds; ++i) {
      const auto [y, x] = run_drawing(way, fn);
      ASSERT_NEAR(x.grad().sum().item<double>(), y.sum().item<double>(), 1e-9) << "round " << i;
    }
  }
}

TEST(LawRngThreads, Dropout) {
  factor_is_forwards([](at::Tensor x) { return torch::dropout(x, 0.5, true); });
}

TEST(LawRngThreads, DropoutOfALaterLayer) {
  factor_is_forwards([](at::Tensor x) { return torch::dropout((x + x) * 0.5, 0.5, true).mul(2); });
}

TEST(LawRngThreads, DropoutInPlace) {
  factor_is_forwards([](at::Tensor x) {
    auto h = x * 1;
    return torch::dropout_(h, 0.5, true);
  });
}

TEST(LawRngThreads, NativeDropout) {
  factor_is_forwards([](at::Tensor x) { return std::get<0>(torch::native_dropout(x, 0.5, true)); });
}

TEST(LawRngThreads, FeatureDropout) {
  factor_is_forwards([](at::Tensor x) {
    return torch::feature_dropout(x.reshape({2, 2, 2}), 0.5, true).reshape({8});
  });
}

TEST(LawRngThreads, Rand) {
  factor_is_forwards([](at::Tensor x) { return x * torch::rand({8}, torch::kDouble); });
}

TEST(LawRngThreads, RandnOfAnOddCountThatLeavesHalfAPair) {
  factor_is_forwards([](at::Tensor x) {
    const auto scale = torch::randn({3}, torch::kDouble).sum();
    return x * scale * torch::randn({}, torch::kDouble);
  });
}

TEST(LawRngThreads, Bernoulli) {
  factor_is_forwards([](at::Tensor x) { return x * torch::bernoulli(torch::full_like(x, 0.5)); });
}

TEST(LawRngThreads, Normal) {
  factor_is_forwards([](at::Tensor x) {
    return x * at::normal(torch::zeros({8}, torch::kDouble), torch::ones({8}, torch::kDouble));
  });
}

TEST(LawRngThreads, InPlaceDistributions) {
  factor_is_forwards([](at::Tensor x) {
    const auto noise = torch::empty_like(x).uniform_(1, 2) + torch::empty_like(x).exponential_();
    return x * (noise + torch::empty_like(x).log_normal_() + torch::empty_like(x).geometric_(0.5));
  });
}

TEST(LawRngThreads, RandintAndPoisson) {
  factor_is_forwards([](at::Tensor x) {
    return x * torch::randint(1000, {8}) * (1 + torch::poisson(torch::full_like(x, 5).detach()));
  });
}

TEST(LawRngThreads, Rrelu) {
  // It writes its noise argument, so the policy may not keep it.
  const auto all = all_ways();
  factor_is_forwards([](at::Tensor x) { return torch::rrelu(x, 0.1, 0.9, true); },
                     -1,
                     {all[0], all[1], all[3], all[4]});
}

TEST(LawRngThreads, Multinomial) {
  sum_is_forwards([](at::Tensor x) {
    const auto rows = torch::multinomial(torch::ones({8}), 8, /*replacement=*/true);
    return (x * torch::arange(8)).index_select(0, rows) * torch::arange(1, 9);
  });
}

TEST(LawRngThreads, Randperm) {
  sum_is_forwards([](at::Tensor x) {
    return (x * torch::arange(8)).index_select(0, torch::randperm(8)) * torch::arange(1, 9);
  });
}

TEST(LawRngThreads, AttentionWithDropout) {
  sum_is_forwards([](at::Tensor x) {
    const auto q = torch::linspace(-1, 1, 8, torch::kDouble).reshape({1, 1, 4, 2});
    return at::scaled_dot_product_attention(q, q, x.reshape({1, 1, 4, 2}), {}, 0.5);
  });
}

TEST(LawRngThreads, SeveralDraws) {
  factor_is_forwards([](at::Tensor x) {
    for (int i = 0; i < 4; ++i) {
      x = torch::dropout(x, 0.2, true) * torch::rand({8}, torch::kDouble).round().add(1);
    }
    return x;
  });
}

TEST(LawRngThreads, NestedRegions) {
  const DrawingThread other;
  for (const auto& way : ways()) {
    SCOPED_TRACE(way.name());
    const Fn inner = [](at::Tensor x) { return torch::dropout(x, 0.3, true); };
    const Fn outer = [way, inner](at::Tensor x) {
      return way(inner, torch::dropout(way(inner, x), 0.3, true));
    };
    for (int i = 0; i < kRounds; ++i) {
      const auto [y, x] = run_drawing(way, outer);
      ASSERT_TRUE(bitwise_equal(x.grad(), y)) << "round " << i;
    }
  }
}

TEST(LawRngThreads, RegionsInALoop) {
  const DrawingThread other;
  for (const auto& way : all_ways()) {
    SCOPED_TRACE(way.name());
    const Fn layer = [](at::Tensor x) { return torch::dropout(x, 0.2, true); };
    for (int i = 0; i < kRounds / 2; ++i) {
      const auto x = torch::ones({8}, torch::kDouble).set_requires_grad(true);
      auto h = x;
      for (int j = 0; j < 4; ++j) {
        h = way(layer, h);
      }
      h.sum().backward();
      ASSERT_TRUE(bitwise_equal(x.grad(), h)) << "round " << i;
    }
  }
}

TEST(LawRngThreads, TwoBackwardCalls) {
  const DrawingThread other;
  for (const auto& way : ways()) {
    SCOPED_TRACE(way.name());
    const Fn fn = [](at::Tensor x) { return torch::dropout(x, 0.5, true); };
    for (int i = 0; i < kRounds; ++i) {
      const auto x = torch::ones({8}, torch::kDouble).set_requires_grad(true);
      const auto y = way(fn, x);
      y.sum().backward({}, /*retain_graph=*/true);
      y.sum().backward();
      ASSERT_TRUE(bitwise_equal(x.grad(), y * 2)) << "round " << i;
    }
  }
}

TEST(LawRngThreads, SecondDerivatives) {
  const DrawingThread other;
  for (const auto& way : ways()) {
    SCOPED_TRACE(way.name());
    const Fn fn = [](at::Tensor x) { return torch::dropout(x, 0.5, true).square(); };
    for (int i = 0; i < kRounds; ++i) {
      // The mask is 0 or 2, so all values are exact.
      const auto x = torch::ones({8}, torch::kDouble).set_requires_grad(true);
      const auto y = way(fn, x);
      const auto slope = torch::autograd::grad({y.sum()}, {x}, {}, true, /*create_graph=*/true)[0];
      slope.sum().backward();
      ASSERT_TRUE(bitwise_equal(slope, y * 2)) << "round " << i;
      ASSERT_TRUE(bitwise_equal(x.grad(), y * 2)) << "round " << i;
    }
  }
}

}  // namespace
}  // namespace reprise::testing
