// Programs that tests/fuzz/program_fuzz found: backward calls inside regions, and hooks.
#include "law/programs.h"

#include <c10/util/ScopeExit.h>

#include <latch>
#include <thread>

namespace reprise::testing {
namespace {

struct FoundCube : torch::autograd::Function<FoundCube> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    const auto result = x * x * x;
    context->save_for_backward({x, result});
    return result;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    return {gradients[0] * saved[0] * saved[0] * 3};
  }
};

void found_count(const at::Tensor& tensor, const at::Tensor& counter) {
  tensor.register_hook([counter](const at::Tensor&) { counter.add_(1); });
}

void found_noise(const at::Tensor& tensor) {
  tensor.register_hook([](const at::Tensor& g) { return g * torch::rand_like(g); });
}

TEST(LawFoundBackward, WhatFollowsAnInnerCallRunsOnce) {
  law([](const Way& way) {
    const auto x = leaf({2, 2});
    const auto buffer = torch::ones({2});
    const auto out = way([=] {
      torch::autograd::grad({torch::gelu(x).sum()}, {x});
      torch::autograd::backward({x.sum()});
      buffer.mul_(0.625);
      return torch::dropout(x, 0.4, true);
    });
    out.sum().backward();
    return std::vector{x.grad(), buffer};
  });
}

TEST(LawFoundBackward, WhatFollowsAnInnerCallOverACustomFunctionRunsOnce) {
  law([](const Way& way) {
    const auto x = leaf({2, 2});
    const auto counter = torch::zeros({}, torch::kLong);
    way([=] {
      torch::autograd::grad({FoundCube::apply(torch::tanh(x)).sum()}, {x});
      x.register_hook([](const at::Tensor& g) { return g * 2; });
      counter.add_(1);
      return x * 2;
    });
    x.sum().backward();
    return std::vector{x.grad(), counter};
  });
}

TEST(LawFoundBackward, AnInnerCallInANestedRegion) {
  law([](const Way& way) {
    const auto x = leaf({2, 2});
    const auto counter = torch::zeros({}, torch::kLong);
    way([=] {
      const auto cube = FoundCube::apply(torch::tanh(x));
      way([=] {
        torch::autograd::grad({torch::log_softmax(x, 1).sum()}, {x});
        counter.add_(1);
        return counter;
      });
      return cube;
    })
        .sum()
        .backward();
    return std::vector{x.grad(), counter};
  });
}

TEST(LawFoundBackward, HooksFromOutsideInAnInnerCallCountOnce) {
  law([](const Way& way) {
    const auto x = leaf({2});
    const auto y = leaf({2});
    const auto counter = torch::zeros({}, torch::kLong);
    const auto out = way([=] {
      const auto first = y * 2;
      torch::autograd::backward({x.sum()});
      return first * torch::outer(y, y).sum();
    });
    found_count(x, counter);
    out.sum().backward();
    return std::vector{x.grad(), y.grad(), counter};
  });
}

TEST(LawFoundBackward, AHookBetweenTwoInnerCalls) {
  law([](const Way& way) {
    const auto x = leaf({2});
    const auto y = leaf({2});
    const auto counter = torch::zeros({}, torch::kLong);
    const auto inner = [=] {
      torch::autograd::backward({x.sum()});
      found_count(x, counter);
      torch::autograd::backward({(x * y).sum()});
      return y * 3;
    };
    way([=] { return way(inner).sin(); }).sum().backward();
    return std::vector{x.grad(), y.grad(), counter};
  });
}

TEST(LawFoundBackward, ALaterHookOnACapturedView) {
  law([](const Way& way) {
    const auto x = leaf({2, 2});
    const auto view = x.select(0, 0);
    const auto inside = torch::zeros({}, torch::kLong), after = torch::zeros({}, torch::kLong);
    const auto out = way([=] {
      view.sum().backward();
      found_count(view, inside);
      return torch::layer_norm(torch::ones({2, 2}), {2}, view);
    });
    found_count(view, after);
    (out.sum() + x.sum()).backward();
    return std::vector{x.grad(), inside, after};
  });
}

TEST(LawFoundBackward, HooksBetweenInnerCallsOfNestedRegions) {
  law([](const Way& way) {
    const auto x = leaf({2, 2}), y = leaf({2});
    const auto counter = torch::zeros({}, torch::kLong);
    way([=] {
      for (int i = 0; i < 2; ++i) {
        way([=] {
          torch::linear(x, x.detach(), y).sum().backward();
          const auto product = x.detach() * y;
          found_count(x, counter);
          torch::autograd::grad({product.sum()}, {y});
          return product;
        });
      }
      return x.sin();
    })
        .sum()
        .backward();
    return std::vector{x.grad(), y.grad(), counter};
  });
}

TEST(LawFoundBackward, ACapturedViewGetsAHistoryBeforeAnInnerCall) {
  law([](const Way& way) {
    const auto x = leaf({2});
    const auto base = torch::ones({3, 2});
    const auto view = base.select(0, 0);
    const auto out = way([=] {
      view.copy_(x);
      torch::rms_norm(torch::ones({2, 2}), {2}, x).sum().backward();
      return view * x;
    });
    (out.sum() + base.sum()).backward();
    return std::vector{x.grad(), base.detach()};
  });
}

// The inner call of the recompute would reach the node that waits for the recompute.
TEST(LawFoundBackward, ACapturedTensorGetsAHistoryThatLeadsBackToTheRegion) {
  refused(
      [](const Way& way) {
        const auto x = leaf({2});
        const auto captured = torch::ones({2});
        // The region holds the tensor, whose history holds the region: a cycle to be cut.
        const auto cut = c10::make_scope_exit([&] { captured.detach_(); });
        const auto out = way(
            [=](const at::Tensor& h) {
              const auto start = h.detach().clone().set_requires_grad(true);
              torch::where(start > 0, captured, start).sum().backward();
              return (h * start.detach()).sin();
            },
            x * 2);
        captured.copy_(out);
        (captured.sum() + out.sum()).backward();
        return Seen{x.grad()};
      },
      kModified);
}

TEST(LawFoundBackward, AHookFromOutsideThatDrawsInAnInnerCall) {
  law([](const Way& way) {
    const auto x = leaf({2, 2});
    const auto y = leaf({2});
    found_noise(x);
    way([=] {
      for (int i = 0; i < 2; ++i) {
        torch::autograd::backward({(x.diagonal() * y).sum()});
      }
      return torch::outer(y, y);
    })
        .sum()
        .backward();
    return std::vector{x.grad(), y.grad()};
  });
}

TEST(LawFoundBackward, AnInnerCallThatFreesAGraphFromOutside) {
  law([](const Way& way) {
    const auto x = leaf({2, 2});
    const auto hidden = torch::silu(x);
    const auto out = way([=] {
      torch::autograd::backward({hidden.sum()});
      return torch::glu(x, 1);
    });
    out.sum().backward();
    return std::vector{x.grad()};
  });
}

TEST(LawFoundBackward, InnerCallsThatFreeTheGraphOfTheRegionBefore) {
  law([](const Way& way) {
    const auto x = leaf({2, 2}), weight = leaf({2});
    auto h = x.detach();
    for (int i = 0; i < 3; ++i) {
      const auto made = torch::mm(x.detach(), x);
      h = way([=] {
        torch::prelu(h, weight).sum().backward();
        return torch::addcmul(x.detach(), h.detach(), made);
      });
    }
    h.sum().backward();
    return std::vector{x.grad(), weight.grad(), h};
  });
}

TEST(LawFoundBackward, AnInnerCallIsRepeatedWithinForward) {
  law([](const Way& way) {
    const auto x = leaf({2, 2}), weight = leaf({2, 2});
    const auto mean = (x * x).mean();
    way([=] {
      (weight * mean).sum().backward();
      const auto own = x.detach().clone().set_requires_grad(true);
      torch::autograd::grad({torch::mm(own, weight.detach()).sum()}, {own});
      return std::vector<at::Tensor>{};
    });
    return std::vector{x.grad(), weight.grad()};
  });
}

TEST(LawFoundBackward, AGradientThatIsZeroedInside) {
  law_or_refused(
      [](const Way& way) {
        const auto x = leaf({2, 2});
        const auto out = way([=] {
          if (x.grad().defined()) {
            x.mutable_grad().zero_();
          }
          return torch::tanh(x);
        });
        x.sum().backward();
        out.sum().backward();
        return std::vector{x.grad()};
      },
      "[reprise]");
}

TEST(LawFoundBackward, AWriteIsAllThatAReentrantRegionDoes) {
  const auto program = [](const Way& way) {
    const auto x = leaf({3, 2});
    const auto captured = torch::ones({3, 2});
    way(
        [captured, x](const at::Tensor&) {
          captured.copy_(x);
          return Seen{};
        },
        x);
    (x - captured).mean().backward();
    return Seen{x.grad(), captured.detach()};
  };
  law(program);
  refused(program, "returns no tensor that gradients can come back to", {reentrant()});
}

/// In its forward, the inner call needs a recompute, which must not repeat what follows: neither
/// the hook's effect nor, by its early stop, the depth that LibTorch's engine counts.
TEST(LawFoundBackward, ManyInnerCallsWhoseHooksHaveEffects) {
  const auto program = [](const Way& way) {
    const auto x = leaf({2});
    const auto counter = torch::zeros({}, torch::kLong);
    found_count(x, counter);
    const auto out = way([=] {
      const auto cube = FoundCube::apply(torch::tanh(x));
      torch::autograd::grad({torch::log_softmax(x, 0).sum()}, {x});
      torch::autograd::grad({torch::exp(x).sum()}, {x});
      return cube;
    });
    out.sum().backward();
    return Seen{x.grad(), counter};
  };
  for (int i = 0; i < 100; ++i) {
    law(program);
  }
}

TEST(LawFoundBackward, AReentrantRegionReturnsATensorTwice) {
  law(
      [](const Way& way) {
        const auto x = leaf({2, 2});
        const auto out = way(
            [](const at::Tensor& h) {
              const auto y = h.sin();
              return Seen{y, y};
            },
            x);
        out[0].select(0, 1).copy_(torch::ones({2}));
        out[1].sum().backward();
        return Seen{x.grad(), out[0].detach(), out[1].detach()};
      },
      all_ways());
}

TEST(LawFoundBackward, AViewThatAutogradRefusesIsPassedOn) {
  law([](const Way& way) {
    const auto x = leaf({4, 2});
    const auto hidden = x * 2;
    const auto chunks = hidden.chunk(2, 1);
    hidden.select(0, 0).add_(1);
    way([x](const at::Tensor&) { return x.exp(); }, chunks[0]).sum().backward();
    return Seen{x.grad()};
  });
}

TEST(LawFoundBackward, ThreadsThatShareAParameterLoseNoGradient) {
  law([](const Way& way) {
    const auto shared = leaf({4, 4});
    Seen gradients;
    for (int round = 0; round < 200; ++round) {
      std::latch both(2);
      const auto train = [&way, &both, shared](int index) {
        const auto x = torch::full({4, 4}, 0.25 * (index + 1));
        const auto out =
            way([shared](const at::Tensor& h) { return torch::mm(h, shared).tanh(); }, x);
        both.arrive_and_wait();
        out.sum().backward();
      };
      std::thread other(train, 0);
      train(1);
      other.join();
      // Two summands: their order does not matter.
      gradients.push_back(shared.grad());
      shared.mutable_grad().reset();
    }
    return gradients;
  });
}

}  // namespace
}  // namespace reprise::testing
