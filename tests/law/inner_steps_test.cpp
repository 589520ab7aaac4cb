// Training steps inside regions: what follows a backward call there, gradients that are assigned or
// dropped, optimizers, parameters that are frozen.
#include "law/law.h"

#include <memory>

namespace reprise::testing {
namespace {

using torch::autograd::grad;

/// A backward call in the middle, and then `work(h)`. Without early stop, nothing of that work may
/// be done ahead of time.
template <class Work>
Program after_inner_backward(Work work) {
  return [work](const Way& way) {
    const auto x = leaf({64}), weight = leaf({64});
    const auto fn = [work, weight](at::Tensor h) {
      const auto score = (h.exp() * weight).sin();
      const auto slope = grad({score.sum()}, {h}, {}, true, /*create_graph=*/true)[0];
      return work((score + slope.square()).sin());
    };
    way(fn, way(fn, x)).sum().backward();
    return Seen{x.grad(), weight.grad()};
  };
}

TEST(LawInnerSteps, DrawsAfterABackwardCall) {
  law(after_inner_backward([](at::Tensor h) {
    h = torch::dropout(h, 0.5, true).sin();
    return h * torch::rand({64});
  }));
}

TEST(LawInnerSteps, DrawsBeforeAndAfterABackwardCall) {
  law([](const Way& way) {
    const auto x = leaf({64});
    const auto fn = [](at::Tensor h) {
      h = torch::dropout(h.exp(), 0.2, true);
      const auto slope = grad({h.sin().sum()}, {h}, {}, true, /*create_graph=*/true)[0];
      h = torch::dropout(slope, 0.2, true) * torch::rand({64});
      return h.sin();
    };
    const auto y = way(fn, way(fn, x));
    torch::rand({3});
    y.sum().backward();
    return Seen{x.grad()};
  });
}

TEST(LawInnerSteps, WritesAfterABackwardCall) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto buffer = torch::zeros({4});
    const auto fn = [=](at::Tensor h) {
      const auto score = (h.exp() * weight).sin() * (buffer.clone() + 1);
      const auto slope = grad({score.sum()}, {h}, {}, true, /*create_graph=*/true)[0];
      buffer.add_(slope.detach());
      return score + slope.square() * buffer.clone();
    };
    way(fn, way(fn, x)).sum().backward();
    return Seen{x.grad(), weight.grad(), buffer};
  });
}

TEST(LawInnerSteps, HooksAfterABackwardCall) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto fn = [=](at::Tensor h) {
      const auto score = (h.exp() * weight).sin();
      const auto slope = grad({score.sum()}, {h}, {}, true, /*create_graph=*/true)[0];
      weight.register_hook([](const at::Tensor& gradient) { return gradient * 3; });
      return score + slope.square();
    };
    way(fn, x).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawInnerSteps, ASecondBackwardCall) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto fn = [=](at::Tensor h) {
      const auto score = (h.exp() * weight).sin();
      const auto slope = grad({score.sum()}, {h}, {}, true, /*create_graph=*/true)[0];
      (slope.detach() * weight).exp().sum().backward();
      return score + slope.square();
    };
    way(fn, x).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawInnerSteps, APreallocatedOutputAfterABackwardCall) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto out = torch::zeros({4});
    const auto fn = [out](at::Tensor h) {
      const auto score = h.exp().sin();
      const auto slope = grad({score.sum()}, {h}, {}, true, /*create_graph=*/true)[0];
      out.copy_(slope);
      return score;
    };
    const auto y = way(fn, x);
    (out.exp() * y).sum().backward();
    return Seen{x.grad(), out};
  });
}

TEST(LawInnerSteps, ABackwardCallOverThePrefixOfTheRegion) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto fn = [=](at::Tensor h) {
      auto score = (h.exp() * weight).sin();
      score.sum().backward({}, /*retain_graph=*/true);
      return score.exp();
    };
    way(fn, x).sum().backward();
    return Seen{x.grad(), weight.grad()};
  });
}

// A recompute that sets the gradient again would drop what backward has accumulated so far.
template <class Optimizer>
Program stepping(const std::function<Optimizer(const at::Tensor&)>& make) {
  return [make](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto optimizer = std::make_shared<Optimizer>(make(weight));
    const auto fn = [=](at::Tensor h) {
      optimizer->zero_grad(/*set_to_none=*/false);
      (h.detach() * weight).exp().sum().backward();
      optimizer->step();
      return (h.exp() * weight.detach().clone()).sin();
    };
    way(fn, way(fn, x)).sum().backward();
    return Seen{x.grad(), weight.grad(), weight.detach()};
  };
}

// An optimizer's state is in C++ maps, whose tensors the first step makes.
TEST(LawInnerSteps, AStepOfSgd) {
  law_or_refused(stepping<torch::optim::SGD>([](const at::Tensor& weight) {
                   return torch::optim::SGD({weight}, torch::optim::SGDOptions(0.1));
                 }),
                 "attacked");
}

TEST(LawInnerSteps, AStepOfSgdWithMomentum) {
  law_or_refused(stepping<torch::optim::SGD>([](const at::Tensor& weight) {
                   return torch::optim::SGD({weight}, torch::optim::SGDOptions(0.1).momentum(0.9));
                 }),
                 "attacked");
}

TEST(LawInnerSteps, AParameterIsFrozenInside) {
  law_or_refused(
      [](const Way& way) {
        const auto x = leaf({4}), weight = leaf({4});
        const auto fn = [weight](at::Tensor h) {
          h = (h.exp() * weight).sin();
          weight.set_requires_grad(false);
          return h.exp();
        };
        way(fn, x).sum().backward();
        return Seen{x.grad(), weight.grad(), torch::tensor(weight.requires_grad())};
      },
      "attacked");
}

TEST(LawInnerSteps, AParameterIsThawedInside) {
  law_or_refused(
      [](const Way& way) {
        const auto x = leaf({4});
        const auto weight = torch::ones({4});
        const auto fn = [weight](at::Tensor h) {
          h = (h.exp() * weight).sin();
          weight.set_requires_grad(true);
          return h.exp() * weight;
        };
        way(fn, x).sum().backward();
        return Seen{x.grad(), weight.grad()};
      },
      "attacked");
}

TEST(LawInnerSteps, TheInputIsDetachedInPlace) {
  law_or_refused(
      [](const Way& way) {
        const auto x = leaf({4}), weight = leaf({4});
        const auto h = x.exp();
        const auto fn = [weight](at::Tensor value) {
          const auto before = value.exp();
          value.detach_();
          return before * value * weight;
        };
        way(fn, h).sum().backward();
        return Seen{x.grad(), weight.grad(), torch::tensor(h.requires_grad())};
      },
      "attacked");
}

TEST(LawInnerSteps, ACaptureIsDetachedInPlace) {
  law_or_refused(
      [](const Way& way) {
        const auto x = leaf({4}), root = leaf({4});
        const auto weight = root.exp();
        const auto fn = [weight](at::Tensor h) {
          h = (h.exp() + weight).sin();
          weight.detach_();
          return h * weight;
        };
        way(fn, x).sum().backward();
        return Seen{x.grad(), root.grad()};
      },
      "attacked");
}

}  // namespace
}  // namespace reprise::testing
