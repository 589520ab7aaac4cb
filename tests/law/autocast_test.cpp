// Autocast around, inside and between regions; its cache of converted weights.
#include "law/programs.h"

#include <thread>

namespace reprise::testing {
namespace {

/// A chain of linear layers without bias.
struct CastChain {
  at::Tensor x = sine_leaf({4, 8}), w = sine_leaf({8, 8}, 1), v = sine_leaf({8, 8}, 2);

  std::function<at::Tensor(at::Tensor)> block() const {
    return [a = w, b = v](at::Tensor h) { return h.mm(a).tanh().mm(b).relu(); };
  }
  Tensors gradients() const { return {x.grad(), w.grad(), v.grad()}; }
};

TEST(LawAutocast, AroundRegions) {
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    law([dtype](const Way& way) {
      const CastChain chain;
      at::Tensor y;
      {
        const AutocastScope autocast(at::kCPU, dtype);
        y = way(chain.block(), way(chain.block(), chain.x));
      }
      y.sum().backward();
      return joined({y.detach()}, chain.gradients());
    });
  }
}

TEST(LawAutocast, AroundForwardAndBackward) {
  law([](const Way& way) {
    const CastChain chain;
    const AutocastScope autocast(at::kCPU);
    const auto y = way(chain.block(), way(chain.block(), chain.x));
    y.sum().backward();
    return joined({y.detach()}, chain.gradients());
  });
}

TEST(LawAutocast, InsideARegion) {
  law(
      [](const Way& way) {
        const CastChain chain;
        const auto fn = [block = chain.block()](at::Tensor h) {
          const AutocastScope autocast(at::kCPU);
          return block(h);
        };
        way(fn, chain.x).sum().backward();
        return chain.gradients();
      },
      all_ways());
}

TEST(LawAutocast, IsTurnedOffInsideARegion) {
  law(
      [](const Way& way) {
        const CastChain chain;
        const AutocastScope autocast(at::kCPU);
        const auto fn = [block = chain.block()](at::Tensor h) {
          h = block(h).to(at::kFloat);
          const AutocastScope off(at::kCPU, at::kBFloat16, /*enabled=*/false);
          return block(h);
        };
        way(fn, chain.x).sum().backward();
        return chain.gradients();
      },
      all_ways());
}

TEST(LawAutocast, OneRegionIsInAnotherIsNot) {
  law([](const Way& way) {
    const CastChain chain;
    at::Tensor h;
    {
      const AutocastScope autocast(at::kCPU);
      h = way(chain.block(), chain.x);
    }
    way(chain.block(), h.to(at::kFloat)).sum().backward();
    return chain.gradients();
  });
}

// The cache hands the same converted weight, with its history, to both.
TEST(LawAutocast, AWeightIsConvertedOutsideBeforeTheRegionUsesIt) {
  law([](const Way& way) {
    const CastChain chain;
    at::Tensor y;
    {
      const AutocastScope autocast(at::kCPU);
      const auto h = chain.x.mm(chain.w);
      y = way(chain.block(), h) + way(chain.block(), h.sin());
    }
    y.sum().backward();
    return chain.gradients();
  });
}

TEST(LawAutocast, AWeightIsConvertedInTheRegionAndUsedOutside) {
  law([](const Way& way) {
    const CastChain chain;
    at::Tensor y;
    {
      const AutocastScope autocast(at::kCPU);
      y = way(chain.block(), chain.x);
      y = y.mm(chain.w).mm(chain.v);
    }
    y.sum().backward();
    return chain.gradients();
  });
}

// Forward runs without gradients there: what the cache gets then has no history, and must not be
// handed to anyone who needs one. Sums may be in another order, so the comparison is not bitwise.
TEST(LawAutocast, AReentrantRegionLeavesNoWeightWithoutHistoryInTheCache) {
  const auto gradients = [](const Way& way) {
    const CastChain chain;
    const AutocastScope autocast(at::kCPU);
    const auto y = way(chain.block(), chain.x);
    y.mm(chain.w).mm(chain.v).sum().backward();
    return chain.gradients();
  };
  const auto expected = gradients(Way()), seen = gradients(reentrant());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(seen[i].defined()) << i;
    EXPECT_TRUE(torch::allclose(expected[i], seen[i], /*rtol=*/0.05, /*atol=*/0.05)) << i;
  }
}

TEST(LawAutocast, TwoReentrantRegionsShareAWeight) {
  const auto gradients = [](const Way& way) {
    const CastChain chain;
    const AutocastScope autocast(at::kCPU);
    way(chain.block(), way(chain.block(), chain.x)).sum().backward();
    return chain.gradients();
  };
  const auto expected = gradients(Way()), seen = gradients(reentrant());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(seen[i].defined()) << i;
    EXPECT_TRUE(torch::allclose(expected[i], seen[i], /*rtol=*/0.05, /*atol=*/0.05)) << i;
  }
}

TEST(LawAutocast, WithoutItsCache) {
  law([](const Way& way) {
    const CastChain chain;
    const WithoutAutocastCache uncached;
    const AutocastScope autocast(at::kCPU);
    way(chain.block(), way(chain.block(), chain.x)).sum().backward();
    return chain.gradients();
  });
}

TEST(LawAutocast, ItsCacheIsTurnedOffBeforeBackward) {
  law([](const Way& way) {
    const CastChain chain;
    const AutocastScope autocast(at::kCPU);
    const auto loss = way(chain.block(), way(chain.block(), chain.x)).sum();
    const WithoutAutocastCache uncached;
    loss.backward();
    return chain.gradients();
  });
}

TEST(LawAutocast, AWeightIsSteppedBetweenTwoStepsOfOneScope) {
  law([](const Way& way) {
    const CastChain chain;
    for (int step = 0; step < 2; ++step) {
      at::Tensor y;
      {
        const AutocastScope autocast(at::kCPU);
        y = way(chain.block(), chain.x);
      }
      y.sum().backward();
      const torch::NoGradGuard no_grad;
      at::Tensor w = chain.w;
      w.sub_(w.grad(), 0.1);
    }
    return joined({chain.w.detach()}, chain.gradients());
  });
}

// Plain training reads the stale converted weight of the cache: so must the regions, or refuse.
TEST(LawAutocast, AStaleConvertedWeightStaysStale) {
  law_or_refused(
      [](const Way& way) {
        const CastChain chain;
        const AutocastScope autocast(at::kCPU);
        way(chain.block(), chain.x).sum().backward();
        {
          const torch::NoGradGuard no_grad;
          at::Tensor w = chain.w;
          w.mul_(2);
        }
        const auto y = way(chain.block(), chain.x);
        y.sum().backward();
        return joined({y.detach()}, chain.gradients());
      },
      "[reprise]");
}

TEST(LawAutocast, NestedRegionsInNestedScopes) {
  law([](const Way& way) {
    const CastChain chain;
    const auto outer = [way, block = chain.block()](at::Tensor h) {
      h = way(block, h);
      const AutocastScope half(at::kCPU, at::kHalf);
      return way(block, h.to(at::kFloat));
    };
    const WithoutAutocastCache uncached;  // it does not know that the dtype changed
    const AutocastScope autocast(at::kCPU);
    way(outer, chain.x).sum().backward();
    return chain.gradients();
  });
}

TEST(LawAutocast, OperatorsThatStayInFloat32) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({4, 8}), w = sine_leaf({8, 8}, 1), v = sine_leaf({8, 8}, 2);
        const AutocastScope autocast(at::kCPU);
        const auto fn = [w, v](at::Tensor h) {
          h = h.mm(w).softmax(-1);
          return torch::layer_norm(h, {8}).mm(v).to(at::kFloat).log_softmax(-1);
        };
        way(fn, x).square().sum().backward();
        return Tensors{x.grad(), w.grad(), v.grad()};
      },
      all_ways());
}

// The cache converts it once, so its gradients are summed before they are converted back.
// Not the reentrant variant, which converts it twice (docs/checkpointing.md).
TEST(LawAutocast, AWeightIsUsedTwiceInOneRegion) {
  law([](const Way& way) {
    auto x = sine_leaf({4, 8}), w = sine_leaf({8, 8}, 1);
    const AutocastScope autocast(at::kCPU);
    way([w](at::Tensor h) { return h.mm(w).tanh().mm(w); }, x).square().sum().backward();
    return Tensors{x.grad(), w.grad()};
  });
}

TEST(LawAutocast, AnLstm) {
  law([](const Way& way) {
    torch::nn::LSTM lstm(4, 4);
    fill_with_sines(*lstm);
    auto x = sine_leaf({3, 2, 4});
    const AutocastScope autocast(at::kCPU);
    way([lstm](at::Tensor h) mutable { return std::get<0>(lstm(h)); }, x).sum().backward();
    return joined({x.grad()}, contents_of(*lstm));
  });
}

TEST(LawAutocast, IsOffAgainAfterARecompute) {
  law([](const Way& way) {
    const CastChain chain;
    at::Tensor loss;
    {
      const AutocastScope autocast(at::kCPU);
      loss = way(chain.block(), chain.x).sum();
    }
    loss.backward();
    EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
    EXPECT_EQ(at::autocast::increment_nesting(), 1);
    at::autocast::decrement_nesting();
    return joined({chain.w.mm(chain.w).detach()}, chain.gradients());
  });
}

at::Tensor cast_product(at::Tensor h) {
  return h.mm(h.t()).tanh();
}

TEST(LawAutocast, IsOnInForwardOnly) {
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    law(
        [dtype](const Way& way) {
          auto x = sine_leaf({8, 8});
          at::Tensor y;
          {
            const AutocastScope autocast(at::kCPU, dtype);
            y = way(cast_product, x);
          }
          y.sum().backward();
          return Tensors{y.detach(), x.grad()};
        },
        all_ways());
  }
}

TEST(LawAutocast, IsOnInBackwardOnly) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({8, 8});
        const auto loss = way(cast_product, x).sum();
        const AutocastScope autocast(at::kCPU);
        loss.backward();
        return Tensors{x.grad()};
      },
      all_ways());
}

TEST(LawAutocast, HasAnotherDtypeInBackward) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({8, 8});
        const AutocastScope autocast(at::kCPU, at::kBFloat16);
        const auto loss = way(cast_product, x).sum();
        const AutocastScope other(at::kCPU, at::kHalf);
        loss.backward();
        return Tensors{x.grad(), sines({8, 8}).mm(sines({8, 8}))};
      },
      all_ways());
}

TEST(LawAutocast, OfAnotherThreadDoesNotMatter) {
  law(
      [](const Way& way) {
        auto x = sine_leaf({8, 8});
        at::Tensor loss;
        {
          const AutocastScope autocast(at::kCPU);
          loss = way(cast_product, x).sum();
        }
        std::thread([loss] { loss.backward(); }).join();
        return Tensors{loss.detach(), x.grad()};
      },
      all_ways());
}

}  // namespace
}  // namespace reprise::testing
