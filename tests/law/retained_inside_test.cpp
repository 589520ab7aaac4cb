// Backward calls inside a region that reach captured tensors which retain their gradient
// (retain_grad): it is accumulated once, and a recompute finds what forward found.
#include "law/law.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <memory>

namespace reprise::testing {
namespace {

/// `make` makes a tensor from a leaf. The region retains its gradient and calls backward over it.
template <class Make>
Program retained_inside(Make make) {
  return [make](const Way& way) {
    const auto x = leaf({4}), root = leaf({4});
    const auto weight = make(root);
    const auto fn = [weight](at::Tensor h) {
      weight.retain_grad();
      (weight * 3).sum().backward({}, /*retain_graph=*/true);
      return h.exp().sin();
    };
    way(fn, way(fn, x)).sum().backward();
    return Seen{x.grad(), root.grad(), weight.grad()};
  };
}

TEST(LawRetainedInside, OfACapture) {
  law(retained_inside([](const at::Tensor& root) { return root.sin(); }));
}

TEST(LawRetainedInside, OfAView) {
  law(retained_inside([](const at::Tensor& root) { return root.expand({3, 4}); }));
}

TEST(LawRetainedInside, OfAResultOfARegion) {
  law([](const Way& way) {
    const auto x = leaf({4}), root = leaf({4});
    const auto weight = way([](at::Tensor h) { return h.exp().sin(); }, root);
    const auto fn = [weight](at::Tensor h) {
      weight.retain_grad();
      (weight * 3).sum().backward({}, /*retain_graph=*/true);
      return h.exp().sin();
    };
    way(fn, x).sum().backward();
    return Seen{x.grad(), root.grad(), weight.grad()};
  });
}

TEST(LawRetainedInside, OfAnArgument) {
  law([](const Way& way) {
    const auto x = leaf({4}), root = leaf({4});
    const auto weight = root.sin();
    const auto fn = [](at::Tensor h, at::Tensor w) {
      w.retain_grad();
      (w * 3).sum().backward({}, /*retain_graph=*/true);
      return h.exp().sin();
    };
    way(fn, x, weight).sum().backward();
    return Seen{x.grad(), root.grad(), weight.grad()};
  });
}

// The gradient of before is added to, and the region reads the sum.
TEST(LawRetainedInside, FromBeforeAndReadInside) {
  law([](const Way& way) {
    const auto x = leaf({4}), root = leaf({4});
    const auto weight = root.sin();
    weight.retain_grad();
    weight.exp().sum().backward({}, /*retain_graph=*/true);
    const auto fn = [weight](at::Tensor h) {
      (weight * 3).sum().backward({}, /*retain_graph=*/true);
      return (h.exp() * weight.grad().detach().clone()).sin();
    };
    const auto y = way(fn, x);
    (weight * 5).sum().backward({}, /*retain_graph=*/true);
    y.sum().backward();
    return Seen{x.grad(), root.grad(), weight.grad()};
  });
}

// It did not retain in forward's call, so not in the repeated one either.
TEST(LawRetainedInside, FromAfterTheCall) {
  law([](const Way& way) {
    const auto x = leaf({4}), root = leaf({4});
    const auto weight = root.sin();
    const auto fn = [weight](at::Tensor h) {
      (weight * 3).sum().backward({}, /*retain_graph=*/true);
      return h.exp().sin();
    };
    const auto y = way(fn, x);
    weight.retain_grad();
    (y.sum() + weight.sum()).backward();
    return Seen{x.grad(), root.grad(), weight.grad()};
  });
}

TEST(LawRetainedInside, OfATensorThatIsWrittenAfterwards) {
  law([](const Way& way) {
    const auto x = leaf({4}), root = leaf({4});
    auto weight = root.sin();
    weight.retain_grad();
    weight.mul_(2);
    const auto fn = [weight](at::Tensor h) {
      (weight * 3).sum().backward({}, /*retain_graph=*/true);
      return h.exp().sin();
    };
    way(fn, x).sum().backward();
    return Seen{x.grad(), root.grad(), weight.grad()};
  });
}

TEST(LawRetainedInside, OfATensorOfTheRegionsOwn) {
  law([](const Way& way) {
    const auto x = leaf({4}), root = leaf({4});
    const auto fn = [root](at::Tensor h) {
      const auto own = root.sin();
      own.retain_grad();
      own.exp().sum().backward();
      return (h.exp() * own.grad().detach().clone()).sin();
    };
    way(fn, way(fn, x)).sum().backward();
    return Seen{x.grad(), root.grad()};
  });
}

/// Retains in its own way, which nobody can undo.
struct OwnRetainingHook final : torch::autograd::FunctionPreHook {
  explicit OwnRetainingHook(std::shared_ptr<at::Tensor> kept) : total(std::move(kept)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& grads) override {
    *total = total->defined() ? *total + grads[0] : grads[0];
    return grads;
  }
  std::shared_ptr<at::Tensor> total;
};

TEST(LawRetainedInside, ByAHookOfItsOwnIsRefused) {
  refused(
      [](const Way& way) {
        const auto x = leaf({4}), root = leaf({4});
        const auto weight = root.sin();
        const auto total = std::make_shared<at::Tensor>();
        weight.grad_fn()->add_retains_grad_hook(std::make_unique<OwnRetainingHook>(total), 0);
        const auto fn = [weight](at::Tensor h) {
          (weight * 3).sum().backward({}, /*retain_graph=*/true);
          return h.exp().sin();
        };
        way(fn, x).sum().backward();
        return Seen{x.grad(), *total};
      },
      "Call backward outside of the region");
}

}  // namespace
}  // namespace reprise::testing
