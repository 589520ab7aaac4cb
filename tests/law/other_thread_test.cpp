// Regions whose backward runs on another thread than their forward, with the state that the other
// programs attack on one thread: buffers, hooks, generators, backward calls inside.
#include "law/buffers.h"
#include "law/drawing_thread.h"
#include "law/law.h"

#include <memory>

namespace reprise::testing {
namespace {

/// The program builds a loss on one thread; backward runs on another.
void backward_elsewhere(const at::Tensor& loss, bool retain_graph = false) {
  elsewhere([&] { loss.backward({}, retain_graph); });
}

TEST(LawOtherThread, BuffersOfNestedRegions) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto outer = [way](at::Tensor h) {
      const auto buffer = torch::zeros({4});
      for (int i = 0; i < 3; ++i) {
        h = way(read_and_bump, h, buffer);
      }
      return h.exp() * buffer;
    };
    backward_elsewhere(way(outer, way(outer, x)).sum());
    return Seen{x.grad()};
  });
}

TEST(LawOtherThread, BuffersOfTheProgram) {
  law(
      [](const Way& way) {
        const auto x = leaf({4});
        const auto buffer = torch::zeros({4});
        const auto fn = [buffer](at::Tensor h) { return read_and_bump(h, buffer).exp(); };
        at::Tensor loss;
        elsewhere([&] { loss = way(fn, way(fn, x)).sum(); });
        backward_elsewhere(loss);
        return Seen{x.grad(), buffer};
      },
      all_ways());
}

TEST(LawOtherThread, WritesBelowAutograd) {
  law_or_refused(
      [](const Way& way) {
        const auto x = leaf({4});
        const auto buffer = torch::zeros({4});
        const auto fn = [buffer](at::Tensor h) {
          h = h.sin() * (buffer.clone() + 1);
          const at::Tensor change = h.detach();
          {
            const at::AutoDispatchBelowADInplaceOrView guard;
            buffer.add_(change);
          }
          return h.sin() * buffer.clone();
        };
        backward_elsewhere(way(fn, way(fn, x)).sum());
        return Seen{x.grad(), buffer};
      },
      "below autograd",
      all_ways());
}

TEST(LawOtherThread, AHookOnTheInputAndOnACapture) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto fn = [weight](at::Tensor h) {
      h.register_hook([](const at::Tensor& grad) { return grad * 3; });
      weight.register_hook([](const at::Tensor& grad) { return grad * 5; });
      return (h.exp() * weight).sin();
    };
    backward_elsewhere(way(fn, x).sum());
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawOtherThread, ABackwardCallInside) {
  law([](const Way& way) {
    const auto x = leaf({4}), weight = leaf({4});
    const auto fn = [weight](at::Tensor h) {
      (h.detach() * weight).exp().sum().backward();
      return (h.exp() * weight).sin();
    };
    backward_elsewhere(way(fn, way(fn, x)).sum());
    return Seen{x.grad(), weight.grad()};
  });
}

TEST(LawOtherThread, AnExplicitGenerator) {
  law(
      [](const Way& way) {
        auto source = at::detail::createCPUGenerator(7);
        const auto x = leaf({64});
        const auto fn = [source](at::Tensor h) {
          return torch::dropout(h.exp() * torch::rand({64}, source), 0.5, true).sin();
        };
        at::Tensor loss;
        elsewhere([&] { loss = way(fn, way(fn, x)).sum(); });
        torch::rand({3}, source);
        backward_elsewhere(loss);
        return Seen{x.grad(), source.get_state()};
      },
      all_ways());
}

TEST(LawOtherThread, APreallocatedOutput) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto out = torch::zeros({2, 4});
    auto h = x;
    for (int i = 0; i < 2; ++i) {
      const auto fn = [](at::Tensor value, at::Tensor target) {
        value = value.exp().sin();
        target.copy_(value);
        return value;
      };
      h = way(fn, h, out[i]);
    }
    backward_elsewhere((out.exp() * h).sum());
    return Seen{x.grad(), out};
  });
}

TEST(LawOtherThread, TwoBackwardCallsOnTwoThreads) {
  law([](const Way& way) {
    const auto x = leaf({64});
    const auto buffer = torch::zeros({64});
    const auto fn = [buffer](at::Tensor h) {
      return torch::dropout(read_and_bump(h, buffer), 0.5, true).exp();
    };
    const auto loss = way(fn, way(fn, x)).sum();
    backward_elsewhere(loss, /*retain_graph=*/true);
    backward_elsewhere(loss);
    return Seen{x.grad(), buffer};
  });
}

// Each thread has a model of its own; only the default generator is shared, and only in forward.
TEST(LawOtherThread, ModelsWithBuffersRunBackwardAtOnce) {
  law(
      [](const Way& way) {
        Seen xs, buffers, losses;
        for (size_t i = 0; i < 4; ++i) {
          xs.push_back(leaf({64}));
          buffers.push_back(torch::zeros({64}));
          const auto fn = [buffer = buffers[i]](at::Tensor h) {
            return torch::dropout(read_and_bump(h, buffer), 0.5, true).exp();
          };
          losses.push_back(way(fn, way(fn, xs[i])).sum());
        }
        in_parallel(xs.size(), [&](size_t i) { losses[i].backward(); });
        Seen seen = buffers;
        for (const auto& x : xs) {
          seen.push_back(x.grad());
        }
        return seen;
      },
      all_ways());
}

TEST(LawOtherThread, RetainedGradients) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto h = x.exp();
    const auto fn = [](at::Tensor value) {
      value.retain_grad();
      return value.sin().exp();
    };
    backward_elsewhere(way(fn, h).sum());
    return Seen{x.grad(), h.grad()};
  });
}

// A thread that the outer region starts is outside of it.
TEST(LawOtherThread, AnInnerRegionOnAThreadOfTheOuterRegion) {
  law_or_refused(
      [](const Way& way) {
        const auto x = leaf({64});
        const auto inner = [](at::Tensor h) { return torch::dropout(h.sin(), 0.5, true).exp(); };
        const auto outer = [way, inner](at::Tensor h) {
          at::Tensor result;
          elsewhere([&] { result = way(inner, h.sin()); });
          return torch::dropout(result, 0.5, true).sin();
        };
        way(outer, x).sum().backward();
        return Seen{x.grad()};
      },
      "attacked",
      // A policy may keep all that depends on the thread's draws: then only the generator differs.
      {ways()[0], ways()[1], ways()[3]});
}

TEST(LawOtherThread, PlainWorkOnAThreadOfTheRegion) {
  law_or_refused(
      [](const Way& way) {
        const auto x = leaf({64});
        const auto fn = [](at::Tensor h) {
          at::Tensor mask;
          elsewhere([&] { mask = torch::bernoulli(torch::full({64}, 0.5)); });
          h = h.exp() * mask;
          return torch::dropout(h, 0.5, true).sin();
        };
        const auto y = way(fn, way(fn, x));
        torch::rand({3});
        y.sum().backward();
        return Seen{x.grad(), torch::rand({3})};
      },
      "attacked",
      all_ways());
}

}  // namespace
}  // namespace reprise::testing
