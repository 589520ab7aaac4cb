// Policies beside state that changes between forward and recompute: random generators, and
// autocast's cache of casts.
#include "support/bitwise.h"
#include "support/policy_step.h"

#include <reprise/autocast.h>
#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <tuple>
#include <vector>

namespace reprise::testing {
namespace {

using policy::save_ops;

TEST(KeptRandomOps, LeaveTheGeneratorAsTheyDidForTheNext) {
  const Fn two_masks = [](at::Tensor x) {
    const auto first = std::get<0>(torch::native_dropout(x.sin(), 0.5, true));
    return std::get<0>(torch::native_dropout(first.exp(), 0.5, true)) * torch::rand({4, 4});
  };
  const auto first_only = policy::from([](const OpContext& op) {
    return op.name == "aten::native_dropout" && op.call_index == 0 ? Decision::Keep
                                                                   : Decision::Recompute;
  });
  expect_equal_to_plain(two_masks, first_only);
  expect_equal_to_plain(two_masks, save_ops({"aten::native_dropout"}));
  const Fn with_bernoulli = [](at::Tensor x) {
    return x.exp() * torch::bernoulli(torch::full({4, 4}, 0.5)) *
           at::normal(torch::zeros({4, 4}), 1.0);
  };
  expect_equal_to_plain(with_bernoulli, save_ops({"aten::bernoulli"}));
  expect_equal_to_plain(with_bernoulli, keep_all());
}

TEST(KeptRandomOps, OfAGivenGeneratorAreReplayedAndLeaveTheCallersStateAlone) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  const auto run = [&generator](bool is_listed, const std::shared_ptr<const Policy>& policy) {
    generator.set_current_seed(7);
    const auto x = input();
    const Fn fn = [generator](at::Tensor t) {
      return t.exp() * torch::bernoulli(torch::full({4, 4}, 0.5), generator);
    };
    CheckpointOptions options{.policy = policy};
    if (is_listed) {
      options.generators = {generator};
    }
    const auto y = policy ? checkpoint(options, fn, x) : fn(x);
    torch::rand({5}, generator, torch::kFloat);  // the program draws on
    const auto gradient = torch::autograd::grad({y.sum()}, {x})[0];
    return std::vector<at::Tensor>{gradient, torch::rand({3}, generator, torch::kFloat)};
  };
  const auto plain = run(false, nullptr);
  expect_bitwise_equal(plain, run(true, save_ops({"aten::bernoulli"})));
  expect_bitwise_equal(plain, run(true, policy::full()));
  expect_bitwise_equal(plain, run(false, save_ops({"aten::bernoulli"})));
}

TEST(KeptRandomOps, ThatDrewNothingLeaveTheCallersGeneratorAlone) {
  const auto next_random = [](const std::shared_ptr<const Policy>& policy) {
    torch::manual_seed(4);
    const auto q = torch::ones({1, 2, 8, 4}).requires_grad_();
    // Attention is a random operator, for its dropout; without dropout it draws nothing.
    const Fn fn = [](at::Tensor x) { return at::scaled_dot_product_attention(x, x, x); };
    const auto y = policy ? checkpoint({.policy = policy}, fn, q) : fn(q);
    torch::rand({5});  // the program draws on
    y.sum().backward();
    return torch::rand({3});
  };
  EXPECT_TRUE(bitwise_equal(next_random(nullptr), next_random(policy::save_attention())));
}

/// Autocast's cache holds the weight's cast from before the region, or the region makes it, or its
/// recompute does. The products are numbered alike each time.
TEST(AutocastCache, DoesNotShiftWhatIsKept) {
  const auto run =
      [](const std::shared_ptr<const Policy>& policy, bool is_cast_before, bool backward_inside) {
        const auto w = torch::linspace(-1, 1, 16).reshape({4, 4}).requires_grad_();
        const auto x = input();
        const Fn fn = [w](at::Tensor t) {
          const auto first = torch::mm(t, w).sigmoid();
          return torch::mm(torch::mm(first.to(at::kFloat), w).exp(), w.t());
        };
        std::vector<at::Tensor> gradients;
        at::Tensor loss;
        {
          const AutocastScope autocast(at::kCPU);
          auto h = is_cast_before ? torch::mm(x, w).to(at::kFloat) : x * 1;
          for (int i = 0; i < 2; ++i) {
            h = (policy ? checkpoint({.policy = policy}, fn, h) : fn(h)).to(at::kFloat);
          }
          loss = h.sum();
          if (backward_inside) {
            gradients = torch::autograd::grad({loss}, {x, w});
          }
        }
        return backward_inside ? gradients : torch::autograd::grad({loss}, {x, w});
      };
  const auto second_product = policy::from([](const OpContext& op) {
    return op.name == "aten::mm" && op.call_index == 1 ? Decision::Keep : Decision::Recompute;
  });
  for (const bool is_cast_before : {false, true}) {
    for (const bool backward_inside : {false, true}) {
      const auto plain = run(nullptr, is_cast_before, backward_inside);
      for (const auto& policy : {policy::save_matmuls(),
                                 policy::save_matmuls(2),
                                 second_product,
                                 keep_all(),
                                 save_ops({"aten::_to_copy"})}) {
        SCOPED_TRACE(policy->describe());
        expect_bitwise_equal(plain, run(policy, is_cast_before, backward_inside));
      }
    }
  }
}

}  // namespace
}  // namespace reprise::testing
