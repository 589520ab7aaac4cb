// Gradients and hooks of nodes that a region asks for: retain_grad, hooks of graph nodes.
#include "law/law.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <memory>

namespace reprise::testing {
namespace {

using torch::autograd::variable_list;

/// Scales what a node passes on.
struct ScalingPostHook : torch::autograd::FunctionPostHook {
  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    variable_list scaled;
    for (const auto& output : outputs) {
      scaled.push_back(output.defined() ? output * 3 : output);
    }
    return scaled;
  }
};

struct ScalingPreHook : torch::autograd::FunctionPreHook {
  variable_list operator()(const variable_list& grads) override {
    variable_list scaled;
    for (const auto& grad : grads) {
      scaled.push_back(grad.defined() ? grad * 3 : grad);
    }
    return scaled;
  }
};

struct CountingPostHook : torch::autograd::FunctionPostHook {
  explicit CountingPostHook(std::shared_ptr<int64_t> counted) : calls(std::move(counted)) {}
  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    ++*calls;
    return outputs;
  }
  std::shared_ptr<int64_t> calls;
};

TEST(LawRetainedGrads, OfTheInput) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto h = x.exp();
    const auto fn = [](at::Tensor value) {
      value.retain_grad();
      return value.sin().exp();
    };
    way(fn, h).sum().backward();
    return Seen{x.grad(), h.grad()};
  });
}

TEST(LawRetainedGrads, OfACapturedNonLeaf) {
  law([](const Way& way) {
    const auto x = leaf({4}), root = leaf({4});
    const auto weight = root.sin();
    const auto fn = [weight](at::Tensor h) {
      weight.retain_grad();
      return (h.exp() * weight).sin();
    };
    way(fn, way(fn, x)).sum().backward();
    return Seen{x.grad(), root.grad(), weight.grad()};
  });
}

TEST(LawRetainedGrads, OfTheResultInsideAndOutside) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto fn = [](at::Tensor h) {
      h = h.exp().sin();
      h.retain_grad();
      return h;
    };
    const auto y = way(fn, x);
    y.retain_grad();
    y.exp().sum().backward();
    return Seen{x.grad(), y.grad()};
  });
}

TEST(LawRetainedGrads, OfTheResultOutsideInEveryWay) {
  law(
      [](const Way& way) {
        const auto x = leaf({4});
        const auto fn = [](at::Tensor h) { return h.exp().sin(); };
        const auto y = way(fn, x);
        y.retain_grad();
        way(fn, y).sum().backward();
        return Seen{x.grad(), y.grad()};
      },
      all_ways());
}

// The tensor of forward is stored outside, so its gradient is the program's to see.
TEST(LawRetainedGrads, OfAnIntermediateTensorThatAModuleStores) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto stored = std::make_shared<at::Tensor>();
    const auto fn = [stored](at::Tensor h) {
      h = h.exp();
      if (!stored->defined()) {
        h.retain_grad();
        *stored = h;
      }
      return h.sin().exp();
    };
    way(fn, x).sum().backward();
    return Seen{x.grad(), stored->grad()};
  });
}

TEST(LawRetainedGrads, OfAViewOfTheInput) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto h = x.exp();
    const auto half = h.narrow(0, 0, 2);
    const auto fn = [half](at::Tensor value) {
      half.retain_grad();
      return value.sin() * half.sum();
    };
    way(fn, h).sum().backward();
    return Seen{x.grad(), half.grad()};
  });
}

// Nodes of the program's graph can be reached from inside, and a hook on them is the program's.
TEST(LawRetainedGrads, APostHookOnTheNodeOfTheInput) {
  law_or_refused(
      [](const Way& way) {
        const auto x = leaf({4});
        const auto fn = [](at::Tensor h) {
          h.grad_fn()->add_post_hook(std::make_unique<ScalingPostHook>());
          return h.sin().exp();
        };
        way(fn, x.exp()).sum().backward();
        return Seen{x.grad()};
      },
      "attacked");
}

TEST(LawRetainedGrads, APreHookOnTheNodeOfTheInput) {
  law_or_refused(
      [](const Way& way) {
        const auto x = leaf({4});
        const auto fn = [](at::Tensor h) {
          h.grad_fn()->add_pre_hook(std::make_unique<ScalingPreHook>());
          return h.sin().exp();
        };
        way(fn, x.exp()).sum().backward();
        return Seen{x.grad()};
      },
      "attacked");
}

TEST(LawRetainedGrads, APostHookOnTheNodeOfACapture) {
  law_or_refused(
      [](const Way& way) {
        const auto x = leaf({4}), root = leaf({4});
        const auto weight = root.sin();
        const auto fn = [weight](at::Tensor h) {
          weight.grad_fn()->add_post_hook(std::make_unique<ScalingPostHook>());
          return (h.exp() * weight).sin();
        };
        way(fn, x).sum().backward();
        return Seen{x.grad(), root.grad()};
      },
      "attacked");
}

TEST(LawRetainedGrads, APostHookOnTheAccumulatorOfALeaf) {
  law_or_refused(
      [](const Way& way) {
        const auto x = leaf({4}), weight = leaf({4});
        const auto calls = std::make_shared<int64_t>(0);
        const auto fn = [weight, calls](at::Tensor h) {
          const auto accumulator = torch::autograd::impl::grad_accumulator(weight);
          accumulator->add_post_hook(std::make_unique<CountingPostHook>(calls));
          return (h.exp() * weight).sin();
        };
        const auto y = way(fn, x);
        y.sum().backward();
        return Seen{x.grad(), weight.grad(), torch::tensor(*calls)};
      },
      "attacked");
}

TEST(LawRetainedGrads, PostHooksOnNodesInside) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto fn = [](at::Tensor h) {
      h = h.exp();
      h.grad_fn()->add_post_hook(std::make_unique<ScalingPostHook>());
      h = h.sin();
      h.grad_fn()->add_pre_hook(std::make_unique<ScalingPreHook>());
      return h.cos();
    };
    way(fn, way(fn, x)).sum().backward();
    return Seen{x.grad()};
  });
}

TEST(LawRetainedGrads, APostHookRegisteredBeforeTheRegion) {
  law(
      [](const Way& way) {
        const auto x = leaf({4});
        const auto h = x.exp();
        h.grad_fn()->add_post_hook(std::make_unique<ScalingPostHook>());
        const auto fn = [](at::Tensor value) { return value.sin().exp(); };
        const auto y = way(fn, h);
        y.grad_fn()->add_pre_hook(std::make_unique<ScalingPreHook>());
        way(fn, y).sum().backward();
        return Seen{x.grad()};
      },
      all_ways());
}

}  // namespace
}  // namespace reprise::testing
