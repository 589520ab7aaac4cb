// Operators with side effects run once, whatever the region does: Note [Operators that run once].
#include "law/effectful_operators.h"
#include "law/programs.h"

namespace reprise::testing {
namespace {

using namespace effectful;

/// The law, and the operators have run as often as without regions.
void runs_once(const Program& program, const std::vector<Way>& others = all_ways()) {
  const auto counted = [&program](const Way& way) {
    reset();
    auto seen = program(way);
    seen.push_back(torch::tensor(runs()));
    return seen;
  };
  law(counted, others);
}

TEST(LawEffectful, OperatorsThatReturnNothing) {
  runs_once([](const Way& way) {
    auto x = sine_leaf({4, 4});
    const auto fn = [](at::Tensor h) {
      h = h.sin();
      report(h);
      tick();
      return h.mm(h).tanh();
    };
    way(fn, way(fn, x)).sum().backward();
    return Tensors{x.grad()};
  });
}

TEST(LawEffectful, ResultsAreThoseOfForward) {
  runs_once([](const Way& way) {
    auto x = sine_leaf({4, 4}, 1);
    const auto fn = [](at::Tensor h) {
      h = scaled(scaled(h.sin()).tanh()).exp();
      const auto [lists, numbers] = parts(h);
      return h * lists[0] * lists[1] * (numbers[1] + ticket());
    };
    const auto y = way(fn, x);
    y.sum().backward();
    return Tensors{y.detach(), x.grad()};
  });
}

TEST(LawEffectful, AnArgumentThatIsReturned) {
  runs_once([](const Way& way) {
    auto x = sine_leaf({4, 4}, 1);
    way([](at::Tensor h) { return pass(pass(h).exp()).tanh().mm(pass(h)); }, x).sum().backward();
    return Tensors{x.grad()};
  });
}

TEST(LawEffectful, DrawsInsideThemAndAroundThem) {
  runs_once([](const Way& way) {
    auto x = sine_leaf({4, 4}, 1);
    const auto fn = [](at::Tensor h) {
      h = torch::dropout(h.sin(), 0.5, true);
      h = h * noise(h.detach());
      return torch::dropout(h.tanh(), 0.5, true).exp();
    };
    way(fn, way(fn, x)).sum().backward();
    return Tensors{x.grad()};
  });
}

TEST(LawEffectful, NestedRegions) {
  runs_once(
      [](const Way& way) {
        auto x = sine_leaf({4, 4}, 1);
        const auto inner = [](at::Tensor h) {
          report(h);
          return scaled(h.sin()).exp() * ticket();
        };
        const auto outer = [way, inner](at::Tensor h) {
          h = way(inner, scaled(h).tanh());
          report(h);
          return way(inner, h).tanh();
        };
        way(outer, way(outer, x)).sum().backward();
        return Tensors{x.grad()};
      },
      ways());
}

TEST(LawEffectful, SeveralBackwardCalls) {
  runs_once(
      [](const Way& way) {
        auto x = sine_leaf({4, 4}, 1);
        const auto fn = [](at::Tensor h) { return scaled(h.sin()).exp() * ticket(); };
        const auto y = way(fn, x);
        const auto first = torch::autograd::grad({y.sum()}, {x}, {}, true, true)[0];
        (y.sum() + first.square().sum()).backward({}, true);
        y.sum().backward();
        return Tensors{x.grad(), first.detach()};
      },
      ways());
}

TEST(LawEffectful, ResultsThatAreChangedInPlace) {
  runs_once([](const Way& way) {
    auto x = sine_leaf({4, 4}, 1);
    auto held = std::make_shared<at::Tensor>();
    const auto fn = [held](at::Tensor h) {
      auto n = noise(h.detach());
      n.mul_(3);
      auto kept = noise(h.detach());
      h = (h.sin() + n + kept).exp();
      if (!is_recomputing()) {
        *held = kept;
      }
      n.add_(1);
      return h.exp() * n;
    };
    const auto y = way(fn, x);
    held->zero_();  // no gradient needs it: it is the region's own copy that is used again
    (y * 2).sum().backward();
    return Tensors{x.grad()};
  });
}

TEST(LawEffectful, InKernelsOfOtherOperators) {
  runs_once([](const Way& way) {
    auto x = sine_leaf({4, 4});
    const auto w = sines({4, 4});
    const auto fn = [w](at::Tensor h) {
      const auto e = logging_exp(w);
      report(h);
      return (h.sin() * e).tanh() * logging_exp(w * 2) * ticket();
    };
    way(fn, x).sum().backward();
    return Tensors{x.grad()};
  });
}

TEST(LawEffectful, PoliciesKeepTheRestAndDoNotSeeThem) {
  std::vector<Way> keeping;
  for (const bool stops : {true, false}) {
    keeping.emplace_back("matmuls",
                         CheckpointOptions{.early_stop = stops, .policy = policy::save_matmuls(2)});
    keeping.emplace_back(
        "kernels that log",
        CheckpointOptions{.early_stop = stops,
                          .policy = policy::save_ops({"reprise_once::logging_exp", "aten::mm"})});
    keeping.emplace_back("callback",
                         CheckpointOptions{.early_stop = stops,
                                           .policy = policy::from([](const OpContext& op) {
                                             EXPECT_FALSE(op.name.ends_with("::scaled")) << op.name;
                                             return op.op_class == OpClass::Matmul
                                                        ? Decision::Keep
                                                        : Decision::Recompute;
                                           })});
  }
  runs_once(
      [](const Way& way) {
        auto x = sine_leaf({4, 4}, 1);
        const auto w = sines({4, 4});
        const auto fn = [w](at::Tensor h) {
          h = scaled(h.mm(w)).mm(logging_exp(w)).tanh();
          report(h);
          return (scaled(h.mm(w)) * ticket()).tanh().mm(h);
        };
        way(fn, way(fn, x)).sum().backward();
        return Tensors{x.grad()};
      },
      keeping);
}

TEST(LawEffectful, UnderPlans) {
  auto x = sine_leaf({64, 64}, 1);
  const auto body = [](at::Tensor h) {
    report(h);
    return (scaled(h.mm(sines({64, 64}) * 0.1)).tanh().exp() * 0.1).sin();
  };
  const auto step = [&] {
    reset();
    x.mutable_grad().reset();
    at::Tensor h = x;
    for (int i = 0; i < 3; ++i) {
      h = checkpoint({.name = "block" + std::to_string(i)}, body, h);
    }
    h.sum().backward();
  };
  reset();
  body(body(body(x))).sum().backward();
  const auto expected = x.grad().clone();
  const auto most = plan(step, at::kCPU, {.budget = int64_t{1} << 40});
  for (const auto budget : {most.curve().front().peak_bytes,
                            (most.curve().front().peak_bytes + most.curve().back().peak_bytes) / 2,
                            most.curve().back().peak_bytes}) {
    const auto planned = most.with_budget(budget);
    const PlanGuard use(planned);
    step();
    use.finish();
    EXPECT_EQ(runs(), 6);
    EXPECT_TRUE(bitwise_equal(x.grad(), expected));
  }
}

}  // namespace
}  // namespace reprise::testing
