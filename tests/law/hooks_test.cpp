// Hooks that are registered inside regions, on tensors from inside and outside. Running the region
// again must neither register them twice nor run them twice.
#include "law/law.h"

#include <torch/csrc/autograd/function_hook.h>

#include <memory>

namespace reprise::testing {
namespace {

/// Scales a gradient, so that a hook that runs twice or not at all shows.
at::Tensor tripled(const at::Tensor& grad) {
  return grad * 3;
}

/// Counts its calls; the copy in a hook counts with the original.
struct HookCounter {
  std::shared_ptr<int64_t> calls = std::make_shared<int64_t>(0);
  at::Tensor value() const { return torch::tensor(*calls); }
  void on(const at::Tensor& tensor) const {
    tensor.register_hook([counted = calls](const at::Tensor&) { ++*counted; });
  }
};

TEST(LawHooks, OnTheInput) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto fn = [](at::Tensor h) {
      h.register_hook(tripled);
      return h.exp().sin();
    };
    const auto root = x * 2;
    way(fn, root).sum().backward();
    return Seen{x.grad()};
  });
}

TEST(LawHooks, OnALeafArgument) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto fn = [](at::Tensor h) {
      h.register_hook(tripled);
      return h.exp().sin();
    };
    way(fn, x).sum().backward();
    return Seen{x.grad()};
  });
}

TEST(LawHooks, OnALeafArgumentThatIsUsedOutsideToo) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto fn = [](at::Tensor h) {
      h.register_hook(tripled);
      return h.exp().sin();
    };
    (way(fn, x) * x.cos()).sum().backward();
    return Seen{x.grad()};
  });
}

TEST(LawHooks, OnACapturedLeaf) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto fn = [weight](at::Tensor h) {
      weight.register_hook(tripled);
      return (h.exp() * weight).sin();
    };
    way(fn, x).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawHooks, OnACapturedLeafInTwoRegions) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto fn = [weight](at::Tensor h) {
      weight.register_hook(tripled);
      return (h.exp() * weight).sin();
    };
    way(fn, way(fn, x)).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawHooks, OnACapturedNonLeaf) {
  law([](const Way& way) {
    const auto x = leaf({4}), root = leaf({4});
    const auto weight = root.sin();
    const auto fn = [weight](at::Tensor h) {
      weight.register_hook(tripled);
      return (h.exp() * weight).sin();
    };
    way(fn, x).sum().backward();
    return Seen{x.grad(), root.grad()};
  });
}

TEST(LawHooks, OnAViewOfACapturedLeaf) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({2, 4});
    const auto fn = [weight](at::Tensor h) {
      const auto row = weight[0];
      row.register_hook(tripled);
      return (h.exp() * row).sin() * weight[1];
    };
    way(fn, x).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawHooks, OnIntermediateTensors) {
  law_or_refused_if_reentrant([](const Way& way) {
    const auto x = leaf({4});
    const auto fn = [](at::Tensor h) {
      h = h.exp();
      h.register_hook(tripled);
      h = h.sin();
      h.register_hook([](const at::Tensor& grad) { return grad + 1; });
      return h.cos();
    };
    way(fn, way(fn, x)).sum().backward();
    return Seen{x.grad()};
  });
}

TEST(LawHooks, OnTheResultInside) {
  law_or_refused_if_reentrant([](const Way& way) {
    const auto x = leaf({4});
    const auto fn = [](at::Tensor h) {
      h = h.exp().sin();
      h.register_hook(tripled);
      return h;
    };
    way(fn, way(fn, x)).sum().backward();
    return Seen{x.grad()};
  });
}

TEST(LawHooks, OnTheResultOutside) {
  law(
      [](const Way& way) {
        const auto x = leaf({4});
        const auto fn = [](at::Tensor h) { return h.exp().sin(); };
        const auto y = way(fn, x);
        y.register_hook(tripled);
        const auto z = way(fn, y);
        y.register_hook([](const at::Tensor& grad) { return grad + 1; });
        z.sum().backward();
        return Seen{x.grad()};
      },
      all_ways());
}

TEST(LawHooks, GradientReversalOfTheInput) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto fn = [weight](at::Tensor h) {
      h.register_hook([](const at::Tensor& grad) { return -grad; });
      return (h.sin() * weight).exp();
    };
    const auto features = x.exp();
    (way(fn, features) + way(fn, features * 2)).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawHooks, GradientReversalByAViewOfTheInput) {
  law(
      [](const Way& way) {
        const auto x = leaf({4});
        const auto fn = [](at::Tensor h) {
          const auto reversed = h.view_as(h);
          reversed.register_hook([](const at::Tensor& grad) { return -grad; });
          return reversed.exp().sin();
        };
        way(fn, x.exp()).sum().backward();
        return Seen{x.grad()};
      },
      all_ways());
}

TEST(LawHooks, ThatCountOnTheInputAndOnACapture) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const HookCounter on_input, on_capture;
    const auto fn = [=](at::Tensor h) {
      on_input.on(h);
      on_capture.on(weight);
      return (h.exp() * weight).sin();
    };
    const auto y = way(fn, x);
    y.sum().backward({}, /*retain_graph=*/true);
    y.sum().backward();
    return Seen{x.grad(), on_input.value(), on_capture.value()};
  });
}

TEST(LawHooks, ThatCountOnIntermediateTensors) {
  law_or_refused_if_reentrant([](const Way& way) {
    const auto x = leaf({4});
    const HookCounter counter;
    const auto fn = [=](at::Tensor h) {
      h = h.exp();
      counter.on(h);
      return h.sin().exp();
    };
    way(fn, way(fn, x)).sum().backward();
    return Seen{x.grad(), counter.value()};
  });
}

TEST(LawHooks, RegisteredAndRemovedInside) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto fn = [weight](at::Tensor h) {
      const auto handle = weight.register_hook(tripled);
      h = (h.exp() * weight).sin();
      weight.remove_hook(handle);
      return h.exp();
    };
    way(fn, way(fn, x)).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawHooks, RegisteredBeforeAndRemovedInside) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto handle = weight.register_hook(tripled);
    const auto fn = [=](at::Tensor h) {
      weight.remove_hook(handle);
      return (h.exp() * weight).sin();
    };
    way(fn, x).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawHooks, RegisteredInsideAndRemovedAfterwards) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto handle = std::make_shared<unsigned>(0);
    const auto fn = [=](at::Tensor h) {
      *handle = weight.register_hook(tripled);
      return (h.exp() * weight).sin();
    };
    const auto y = way(fn, x);
    y.sum().backward({}, /*retain_graph=*/true);
    weight.remove_hook(*handle);
    y.sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawHooks, BeforeInsideAndAfterRunInThatOrder) {
  law([](const Way& way) {
    const auto x = leaf({4});
    x.register_hook([](const at::Tensor& grad) { return grad + 1; });
    const auto fn = [](at::Tensor h) {
      h.register_hook(tripled);
      return h.exp().sin();
    };
    const auto y = way(fn, x);
    x.register_hook([](const at::Tensor& grad) { return grad - 5; });
    y.sum().backward();
    return Seen{x.grad()};
  });
}

TEST(LawHooks, InNestedRegions) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto inner = [weight](at::Tensor h) {
      weight.register_hook(tripled);
      h.register_hook([](const at::Tensor& grad) { return grad + 1; });
      return (h.exp() * weight).sin();
    };
    const auto outer = [way, inner](at::Tensor h) {
      h.register_hook(tripled);
      return way(inner, way(inner, h.exp())).cos();
    };
    way(outer, x).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawHooks, InALoopOfRegionsOverOneLeaf) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const HookCounter counter;
    const auto fn = [=](at::Tensor h) {
      counter.on(weight);
      return (h * weight).sin();
    };
    auto h = x;
    for (int i = 0; i < 3; ++i) {
      h = way(fn, h);
    }
    h.sum().backward();
    // The next step sees the hooks of the first once each.
    (x * weight).sum().backward();
    return Seen{x.grad(), weight.grad(), counter.value()};
  });
}

TEST(LawHooks, WithSecondDerivatives) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto fn = [weight](at::Tensor h) {
      h.register_hook(tripled);
      weight.register_hook(tripled);
      return (h.exp() * weight).sin();
    };
    const auto y = way(fn, x.sin());
    const auto slopes =
        torch::autograd::grad({y.sum()}, {x, weight}, {}, true, /*create_graph=*/true);
    (slopes[0].square() + slopes[1]).sum().backward();
    return Seen{x.grad(), weight.grad(), slopes[0], slopes[1]};
  });
}

}  // namespace
}  // namespace reprise::testing
