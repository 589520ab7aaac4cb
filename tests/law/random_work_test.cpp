// Random numbers in unusual places: captured buffers, gradients, hooks, operators that fail, modes
// below autograd, generators that are listed and shared.
#include "law/drawing_thread.h"
#include "law/law.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <unistd.h>
#include <memory>
#include <mutex>

namespace reprise::testing {
namespace {

at::Tensor dropped_out(const at::Tensor& x) {
  return torch::dropout(x, 0.5, true);
}

/// A region that fills a captured buffer with random numbers, and uses it.
template <class FillBuffer>
Program filling(FillBuffer fill) {
  return [fill](const Way& way) {
    const auto buffer = torch::ones({64});
    const auto x = leaf({64});
    const auto fn = [fill, buffer](at::Tensor h) {
      h = h.sin() * buffer.clone();
      fill(buffer);
      return dropped_out(h.exp() * buffer.clone()).sin();
    };
    const auto y = way(fn, way(fn, x));
    torch::rand({3});
    y.sum().backward();
    return Seen{x.grad(), buffer};
  };
}

TEST(LawRandomWork, ABufferIsFilledInPlace) {
  law(filling([](at::Tensor buffer) { buffer.normal_().narrow(0, 0, 9).uniform_(); }), all_ways());
}

TEST(LawRandomWork, ABufferIsFilledWithAMask) {
  law(filling([](at::Tensor buffer) { buffer.bernoulli_(0.5).mul_(torch::rand({64})); }),
      all_ways());
}

TEST(LawRandomWork, ABufferIsFilledByOutVariants) {
  law(filling([](at::Tensor buffer) {
        at::rand_out(buffer, {64});
        auto half = buffer.narrow(0, 0, 32);
        at::randperm_out(half, 32);
        auto rest = buffer.narrow(0, 32, 32);
        at::normal_out(rest, 0.0, torch::ones({32}));
      }),
      all_ways());
}

TEST(LawRandomWork, ABufferIsFilledBelowAutograd) {
  law_or_refused(filling([](at::Tensor buffer) {
                   const at::AutoDispatchBelowADInplaceOrView guard;
                   buffer.normal_();
                 }),
                 "below autograd",
                 all_ways());
}

TEST(LawRandomWork, ModesBelowAutograd) {
  law(
      [](const Way& way) {
        const auto x = leaf({64});
        const auto fn = [](at::Tensor h) {
          at::Tensor a, b, c;
          {
            const at::AutoDispatchBelowADInplaceOrView guard;
            a = torch::rand({64});
          }
          {
            const torch::NoGradGuard no_grad;
            b = torch::dropout(torch::ones({64}), 0.5, true);
          }
          {
            const c10::InferenceMode inference;
            c = torch::randn({64});
          }
          return dropped_out(h.exp() * a * b).sin() * (c.sum().item<float>() + 1);
        };
        const auto y = way(fn, way(fn, x));
        torch::rand({3});
        y.sum().backward();
        return Seen{x.grad()};
      },
      all_ways());
}

/// Adds noise in backward, of numbers drawn there.
struct NoisyGradient : torch::autograd::Function<NoisyGradient> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x * torch::rand(x.sizes());
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext*,
                                               torch::autograd::tensor_list grads) {
    return {grads[0] + torch::randn(grads[0].sizes())};
  }
};

TEST(LawRandomWork, AGradientThatDraws) {
  law(
      [](const Way& way) {
        const auto x = leaf({64});
        const auto fn = [](at::Tensor h) {
          return NoisyGradient::apply(dropped_out(h.exp())).sin();
        };
        const auto y = way(fn, way(fn, x));
        torch::rand({3});
        y.sum().backward();
        return Seen{x.grad(), torch::rand({3})};
      },
      all_ways());
}

TEST(LawRandomWork, AGradientThatDrawsInsideTheRegion) {
  law([](const Way& way) {
    const auto x = leaf({64}), weight = leaf({64});
    const auto fn = [weight](at::Tensor h) {
      const auto noisy = NoisyGradient::apply(h.detach() * weight).sin();
      const auto slope = torch::autograd::grad({noisy.sum()}, {weight})[0];
      return dropped_out(h * slope).sin();
    };
    const auto y = way(fn, way(fn, x));
    torch::rand({3});
    y.sum().backward();
    return Seen{x.grad(), torch::rand({3})};
  });
}

TEST(LawRandomWork, AHookThatDraws) {
  law([](const Way& way) {
    const auto x = leaf({64});
    const auto fn = [](at::Tensor h) {
      h = dropped_out(h.exp());
      h.register_hook([](const at::Tensor& grad) { return grad + torch::randn({64}); });
      return dropped_out(h.sin());
    };
    const auto y = way(fn, way(fn, x));
    y.sum().backward({}, /*retain_graph=*/true);
    y.sum().backward();
    return Seen{x.grad(), torch::rand({3})};
  });
}

TEST(LawRandomWork, ARandomOperatorThatFails) {
  law(
      [](const Way& way) {
        const auto x = leaf({64});
        const auto fn = [](at::Tensor h) {
          h = dropped_out(h.exp());
          try {
            torch::empty({64}).bernoulli_(2.0);
          } catch (const c10::Error&) {
            h = h * 2;
          }
          return dropped_out(dropped_out(h.sin()).exp()).sin();
        };
        const auto y = way(fn, way(fn, x));
        torch::rand({3});
        y.sum().backward();
        return Seen{x.grad()};
      },
      all_ways());
}

TEST(LawRandomWork, ARandomOperatorOfNoElements) {
  law(
      [](const Way& way) {
        const auto x = leaf({64});
        const auto fn = [](at::Tensor h) {
          h = dropped_out(h.exp()) + torch::rand({0}).sum() + torch::randperm(1).sum();
          return dropped_out(h.sin()).exp();
        };
        way(fn, way(fn, x)).sum().backward();
        return Seen{x.grad()};
      },
      all_ways());
}

TEST(LawRandomWork, ARandomOperatorInABranchOnItsOwnNumbers) {
  law(
      [](const Way& way) {
        const auto x = leaf({64});
        const auto fn = [](at::Tensor h) {
          while (torch::rand({1}).item<float>() < 0.8) {
            h = dropped_out(h.sin()) * 2;
          }
          return h.exp() * torch::randint(5, {64});
        };
        const auto y = way(fn, way(fn, x));
        torch::rand({3});
        y.sum().backward();
        return Seen{x.grad()};
      },
      all_ways());
}

double draw_number(const at::Generator& source) {
  auto* cpu = at::check_generator<at::CPUGeneratorImpl>(source);
  const std::scoped_lock lock(cpu->mutex_);
  return static_cast<double>(cpu->random() % 1000) / 1000;
}

const auto list_default = [](CheckpointOptions& options) {
  options.generators = {at::detail::getDefaultCPUGenerator()};
};

TEST(LawRandomWork, AListedGeneratorIsLeftAsItWas) {
  law_or_refused(
      [](const Way& way) {
        const auto x = leaf({64});
        const auto fn = [](at::Tensor h) {
          auto source = at::detail::getDefaultCPUGenerator();
          const auto state = source.get_state();
          const double number = draw_number(source);
          source.set_state(state);
          return (h * number).sin().exp();
        };
        const auto y = way.with(list_default, fn, x);
        torch::rand({3});
        y.sum().backward();
        return Seen{x.grad()};
      },
      "attacked",
      all_ways());
}

TEST(LawRandomWork, APolicyThatDrawsWithoutOperators) {
  const auto drawing = policy::from([](const OpContext& op) {
    const double number = draw_number(at::detail::getDefaultCPUGenerator());
    return number < 0.5 && !op.name.ends_with('_') ? Decision::Keep : Decision::Recompute;
  });
  alarm(20);  // a deadlock ends this test, not all of them
  for (int i = 0; i < 20; ++i) {
    const auto x = torch::ones({64}).set_requires_grad(true);
    const auto fn = [](at::Tensor h) {
      return dropped_out(h * torch::bernoulli(torch::full({64}, 0.8)));
    };
    const auto y = checkpoint({.policy = drawing, .name = "attacked"}, fn, x);
    y.sum().backward();
    EXPECT_TRUE(bitwise_equal(x.grad(), y));
  }
  alarm(0);
}

}  // namespace
}  // namespace reprise::testing
