// Captured tensors that a region reads under another name first: detached, without grad, through
// data(). What is remembered of them (hooks, gradients) belongs to the tensor, not to its memory.
#include "law/law.h"

#include <torch/csrc/autograd/function_hook.h>

#include <memory>

namespace reprise::testing {
namespace {

struct CountingHook final : torch::autograd::FunctionPostHook {
  explicit CountingHook(std::shared_ptr<int64_t> counted) : calls(std::move(counted)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& inputs,
                                            const torch::autograd::variable_list&) override {
    ++*calls;
    return inputs;
  }
  std::shared_ptr<int64_t> calls;
};

/// A hook on the node of a captured tensor, which is then read under `other_name` and as itself.
template <class OtherName>
Program hook_on_a_capture(OtherName other_name) {
  return [other_name](const Way& way) {
    const auto x = leaf({4}), root = leaf({4});
    const auto weight = root.sin();
    const auto calls = std::make_shared<int64_t>(0);
    const auto fn = [=](at::Tensor h) {
      weight.grad_fn()->add_post_hook(std::make_unique<CountingHook>(calls));
      const auto factor = other_name(weight).cos();
      return (h.exp() * weight).sin() * factor;
    };
    way(fn, way(fn, x)).sum().backward();
    return Seen{x.grad(), root.grad(), torch::tensor(*calls)};
  };
}

TEST(LawAliasedReads, OfADetachedCapture) {
  law(hook_on_a_capture([](const at::Tensor& tensor) { return tensor.detach(); }));
}

TEST(LawAliasedReads, OfDataOfACapture) {
  law(hook_on_a_capture([](const at::Tensor& tensor) { return tensor.data(); }));
}

TEST(LawAliasedReads, OfAViewOfADetachedCapture) {
  law(hook_on_a_capture([](const at::Tensor& tensor) {
    return tensor.detach().reshape({2, 2}).view({4});
  }));
}

TEST(LawAliasedReads, OfACaptureBelowAutograd) {
  law(hook_on_a_capture([](const at::Tensor& tensor) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    return tensor.view({4});
  }));
}

// More than the few that are searched one by one.
TEST(LawAliasedReads, OfManyDetachedCaptures) {
  law([](const Way& way) {
    const auto x = leaf({4}), root = leaf({4});
    std::vector<at::Tensor> weights;
    for (int i = 0; i < 20; ++i) {
      weights.push_back(root.sin() * i);
    }
    const auto calls = std::make_shared<int64_t>(0);
    const auto fn = [=](at::Tensor h) {
      for (const auto& weight : weights) {
        h = h * weight.detach().cos();
      }
      for (const auto& weight : weights) {
        weight.grad_fn()->add_post_hook(std::make_unique<CountingHook>(calls));
        h = (h * weight).sin();
      }
      return h;
    };
    way(fn, x).sum().backward();
    return Seen{x.grad(), root.grad(), torch::tensor(*calls)};
  });
}

// Reading under two names is no change.
TEST(LawAliasedReads, OfACaptureThatTheRegionWritesInBetween) {
  law([](const Way& way) {
    const auto x = leaf({4});
    const auto buffer = torch::ones({4});
    const auto fn = [=](at::Tensor h) {
      h = h + buffer.detach();
      buffer.add_(1);
      return (h.exp() * buffer).sin();
    };
    way(fn, x).sum().backward();
    return Seen{x.grad(), buffer};
  });
}

// As without regions: the product has saved the old value.
TEST(LawAliasedReads, OfACaptureThatIsChangedAfterwards) {
  refused(
      [](const Way& way) {
        const auto x = leaf({4}), weight = leaf({4});
        const auto fn = [weight](at::Tensor h) { return (h + weight.detach()).exp() + weight; };
        const auto y = way(fn, x);
        {
          const torch::NoGradGuard no_grad;
          weight.add_(1);
        }
        y.sum().backward();
        return Seen{x.grad()};
      },
      "attacked");
}

}  // namespace
}  // namespace reprise::testing
