// Programs that tests/fuzz/program_fuzz found: kept results.
#include "law/law.h"

#include <reprise/autocast.h>

namespace reprise::testing {
namespace {

/// Keeps every `step`-th call of every operator that writes nothing.
std::shared_ptr<const Policy> found_policy(size_t step) {
  return policy::from([step](const OpContext& op) {
    const bool writes = op.name.ends_with('_') || op.overload == "out";
    const size_t hash = std::hash<std::string_view>()(op.name) + op.call_index;
    return !writes && hash % step == 0 ? Decision::Keep : Decision::Recompute;
  });
}

/// Several policies, with the check of saved tensors and without it.
std::vector<Way> found_ways() {
  std::vector<Way> ways;
  for (const size_t step : {1, 2, 3}) {
    ways.emplace_back("policy", CheckpointOptions{.policy = found_policy(step)});
    ways.emplace_back("unchecked policy",
                      CheckpointOptions{.early_stop = false,
                                        .determinism_check = DeterminismCheck::None,
                                        .policy = found_policy(step)});
  }
  return ways;
}

TEST(LawFoundPolicies, AProductOfNoGradModeIsKept) {
  law(
      [](const Way& way) {
        const auto x = leaf({2, 2});
        const auto weight = torch::linspace(-1, 1, 4).reshape({2, 2});
        const auto bias = torch::linspace(-1, 1, 2);
        way([=] {
          at::Tensor hidden;
          {
            const torch::NoGradGuard no_grad;
            hidden = weight + torch::linear(weight, weight, bias);
            hidden = torch::addmm(bias, hidden, weight).clone();
          }
          return torch::mm(hidden * 2, x);
        })
            .sum()
            .backward();
        return std::vector{x.grad()};
      },
      found_ways());
}

// The kernel of addmm copies the bias into its result, which is new.
TEST(LawFoundPolicies, AProductOfNoGradModeIsKeptAndUsedOnce) {
  law(
      [](const Way& way) {
        const auto x = leaf({2, 2});
        const auto weight = torch::linspace(-1, 1, 4).reshape({2, 2});
        const auto bias = torch::linspace(-1, 1, 2);
        way([=] {
          at::Tensor hidden;
          {
            const torch::NoGradGuard no_grad;
            hidden = weight + torch::linear(weight, weight, bias);
          }
          return torch::mm(hidden, x);
        })
            .sum()
            .backward();
        return std::vector{x.grad()};
      },
      {{"policy", {.policy = policy::save_ops({"aten::addmm"})}},
       {"unchecked policy",
        {.determinism_check = DeterminismCheck::None,
         .policy = policy::save_ops({"aten::addmm"})}}});
}

TEST(LawFoundPolicies, AnInnerCallUnderAutocast) {
  law_or_refused(
      [](const Way& way) {
        const auto x = leaf({3, 2});
        const auto weight = leaf({2, 2});
        way([=] {
          const AutocastScope autocast(at::kCPU, at::kBFloat16);
          const auto wide = torch::cat({weight, weight.t(), -weight, weight * 0.5});
          const auto state = torch::lstm_cell(x, {x, x}, wide, wide);
          torch::autograd::backward({std::get<1>(state).sum()});
          const auto conv = torch::conv1d(x.t().unsqueeze(0), weight.unsqueeze(2));
          torch::autograd::grad({conv.sum()}, {x});
          return torch::sigmoid(torch::mm(x, weight)).to(torch::kFloat);
        })
            .sum()
            .backward();
        return std::vector{x.grad(), weight.grad()};
      },
      "in an autocast scope that it has opened itself",
      found_ways());
}

TEST(LawFoundPolicies, AnInnerCallAfterADraw) {
  law(
      [](const Way& way) {
        const auto x = leaf({2, 2});
        const auto constant = torch::linspace(-1, 1, 4).reshape({2, 2});
        way([=] {
          const auto noise = std::get<0>(torch::native_dropout(constant, 0.4, true));
          const auto start = noise.detach().clone().set_requires_grad(true);
          torch::autograd::backward({torch::linear(x, constant, constant[0]).sum()});
          return torch::mm(start, x);
        })
            .sum()
            .backward();
        return std::vector{x.grad()};
      },
      found_ways());
}

TEST(LawFoundPolicies, AGruCellAddsInPlace) {
  law(
      [](const Way& way) {
        const auto x = leaf({2, 2});
        const auto weight = leaf({2, 2});
        way([=] {
          const auto wide = torch::cat({weight, weight.t(), -weight});
          return torch::gru_cell(x, x, wide, wide);
        })
            .sum()
            .backward();
        return std::vector{x.grad(), weight.grad()};
      },
      found_ways());
}

TEST(LawFoundPolicies, AResultOfInferenceModeIsWritten) {
  law(
      [](const Way& way) {
        const auto x = leaf({2, 2});
        const auto buffer = torch::ones({2});
        way([=] {
          at::Tensor copy = buffer.clone();
          {
            const c10::InferenceMode inference;
            auto noise = torch::rand_like(copy);
            torch::dropout_(noise, 0.4, true);
            copy.add_(noise);
          }
          return x * copy;
        })
            .sum()
            .backward();
        return std::vector{x.grad()};
      },
      found_ways());
}

TEST(LawFoundPolicies, TheSameTensorReturnedTwice) {
  law_or_refused(
      [](const Way& way) {
        const auto x = leaf({2});
        const auto out = way(
            [](const at::Tensor& h) {
              const auto y = torch::outer(h, h);
              return std::vector{y, y};
            },
            x * 2);
        out[1].copy_(torch::ones({2, 2}));
        out[0].sum().backward();
        return std::vector{x.grad()};
      },
      "[reprise]",
      all_ways());
}

}  // namespace
}  // namespace reprise::testing
