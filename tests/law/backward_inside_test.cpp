// Backward calls in the middle of a region: over parameters that it captures, over its input, with
// graphs that are kept or differentiated again.
#include "law/law.h"

#include <memory>

namespace reprise::testing {
namespace {

using torch::autograd::grad;

TEST(LawBackwardInside, GradOfACapturedParameter) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto fn = [weight](at::Tensor h) {
      const auto loss = (h.detach() * weight).exp().sum();
      const auto slope = grad({loss}, {weight})[0];
      return (h * slope).sin();
    };
    way(fn, way(fn, x)).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawBackwardInside, BackwardOverACapturedParameterAccumulatesOnce) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto fn = [weight](at::Tensor h) {
      (h.detach() * weight).exp().sum().backward();
      return (h.exp() * weight).sin();
    };
    way(fn, way(fn, x)).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawBackwardInside, BackwardOverACaptureThatTheRegionOtherwiseIgnores) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto fn = [weight](at::Tensor h) {
      weight.square().sum().backward();
      return h.exp().sin();
    };
    way(fn, x).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawBackwardInside, BackwardOverTheInput) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto fn = [](at::Tensor h) {
      h.exp().sum().backward();
      return h.sin().exp();
    };
    way(fn, x).sum().backward();
    return Seen{x.grad()};
  });
}

TEST(LawBackwardInside, BackwardOverALeafOfItsOwn) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto fn = [](at::Tensor h) {
      const auto own = h.detach().clone().set_requires_grad(true);
      own.exp().sum().backward();
      return (h * own.grad()).sin();
    };
    way(fn, way(fn, x)).sum().backward();
    return Seen{x.grad()};
  });
}

TEST(LawBackwardInside, TwiceWithARetainedGraph) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto fn = [weight](at::Tensor h) {
      const auto loss = (h.detach() * weight).exp().sum();
      loss.backward({}, /*retain_graph=*/true);
      loss.backward();
      return (h.exp() * weight).sin();
    };
    way(fn, x).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawBackwardInside, TheGradientIsReadInside) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto fn = [weight](at::Tensor h) {
      (h.detach() * weight).exp().sum().backward();
      return (h.exp() * weight.grad().detach().clone()).sin();
    };
    way(fn, way(fn, x)).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawBackwardInside, TheGradientOfAnEarlierStepIsReadInside) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    weight.exp().sum().backward();
    const auto fn = [weight](at::Tensor h) {
      return (h.exp() * weight.grad().clone()).sin() * weight;
    };
    way(fn, x).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawBackwardInside, TheGradientIsZeroedInside) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    weight.exp().sum().backward();
    const auto fn = [weight](at::Tensor h) {
      weight.mutable_grad().zero_();
      (h.detach() * weight).exp().sum().backward();
      return (h.exp() * weight).sin();
    };
    way(fn, way(fn, x)).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

// A recompute that drops the gradient again would drop what backward has accumulated so far.
TEST(LawBackwardInside, TheGradientIsDroppedInside) {
  law_or_refused(
      [](const Way& way) {
        const auto x = leaf({4}), weight = leaf({4});
        weight.exp().sum().backward();
        const auto fn = [weight](at::Tensor h) {
          weight.mutable_grad() = at::Tensor();
          (h.detach() * weight).exp().sum().backward();
          return (h.exp() * weight).sin();
        };
        way(fn, way(fn, x)).sum().backward();
        return Seen{x.grad(), weight.grad()};
      },
      "attacked");
}

TEST(LawBackwardInside, AGradientPenalty) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto fn = [weight](at::Tensor h) {
      const auto score = (h.exp() * weight).sin();
      const auto slope = grad({score.sum()}, {h}, {}, true, /*create_graph=*/true)[0];
      return score + slope.square().sum();
    };
    way(fn, way(fn, x)).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawBackwardInside, AGradientPenaltyWithDropout) {
  law([](const Way& way) {
    const auto x = leaf({8}), weight = leaf({8});
    const auto fn = [weight](at::Tensor h) {
      const auto score = torch::dropout((h.exp() * weight).sin(), 0.5, true);
      const auto slope = grad({score.sum()}, {h}, {}, true, /*create_graph=*/true)[0];
      return score + torch::dropout(slope, 0.5, true).square().sum();
    };
    way(fn, way(fn, x)).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawBackwardInside, AnInnerStepOfMetaLearning) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto fn = [weight](at::Tensor h) {
      auto fast = weight * 1;
      for (int i = 0; i < 2; ++i) {
        const auto loss = (h.detach() * fast).exp().sum();
        fast = fast - 0.1 * grad({loss}, {fast}, {}, true, /*create_graph=*/true)[0];
      }
      return (h * fast).sin();
    };
    way(fn, x).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawBackwardInside, AnInnerStepThatUpdatesALeafInPlace) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto fn = [weight](at::Tensor h) {
      const auto slope = grad({(h.detach() * weight).exp().sum()}, {weight})[0];
      {
        const torch::NoGradGuard no_grad;
        weight.sub_(0.1 * slope);
      }
      return (h * weight).sin();
    };
    way(fn, x).sum().backward();
    return Seen{x.grad(), weight.grad(), weight.detach()};
  });
}

TEST(LawBackwardInside, RegionsInsideTheInnerGraph) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto layer = [weight](at::Tensor h) { return (h.exp() * weight).sin(); };
    const auto outer = [=](at::Tensor h) {
      const auto score = way(layer, way(layer, h));
      const auto slope = grad({score.sum()}, {h}, {}, true, /*create_graph=*/true)[0];
      return score + slope.square().sum();
    };
    way(outer, x).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawBackwardInside, BackwardThroughAnInnerRegionAccumulatesOnce) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto layer = [weight](at::Tensor h) { return (h.exp() * weight).sin(); };
    const auto outer = [=](at::Tensor h) {
      way(layer, h.detach()).sum().backward();
      return way(layer, h).exp();
    };
    way(outer, x).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawBackwardInside, BackwardInsideAnInnerRegion) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto layer = [weight](at::Tensor h) {
      (h.detach() * weight).exp().sum().backward();
      return (h.exp() * weight).sin();
    };
    const auto outer = [=](at::Tensor h) { return way(layer, way(layer, h)).exp(); };
    way(outer, x).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawBackwardInside, AndTheOuterBackwardRunsTwice) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto fn = [weight](at::Tensor h) {
      (h.detach() * weight).exp().sum().backward();
      return (h.exp() * weight).sin();
    };
    const auto y = way(fn, x);
    y.sum().backward({}, /*retain_graph=*/true);
    y.sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawBackwardInside, AndTheOuterGradientIsDifferentiatedAgain) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto fn = [weight](at::Tensor h) {
      (h.detach() * weight).exp().sum().backward();
      return (h.exp() * weight).sin();
    };
    const auto y = way(fn, x);
    const auto slope = grad({y.sum()}, {x}, {}, true, /*create_graph=*/true)[0];
    slope.square().sum().backward();
    return Seen{x.grad(), weight.grad(), slope};
  });
}

TEST(LawBackwardInside, OverAGraphFromOutside) {
  law_or_refused(
      [](const Way& way) {
        const auto x = leaf({4}), weight = leaf({4});
        const auto loss = weight.exp().sum();
        const auto fn = [loss, weight](at::Tensor h) {
          loss.backward({}, /*retain_graph=*/true);
          return (h.exp() * weight).sin();
        };
        way(fn, x).sum().backward();
        return Seen{x.grad(), weight.grad()};
      },
      "attacked");
}

TEST(LawBackwardInside, WithAHookOnTheParameter) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto calls = torch::zeros({});  // a tensor: C++ variables change again with a recompute
    weight.register_hook([calls](const at::Tensor&) { calls.add_(1); });
    const auto fn = [weight](at::Tensor h) {
      (h.detach() * weight).exp().sum().backward();
      return (h.exp() * weight).sin();
    };
    way(fn, x).sum().backward();
    return Seen{x.grad(), weight.grad(), calls};
  });
}

}  // namespace
}  // namespace reprise::testing
