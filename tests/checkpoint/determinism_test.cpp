// A recompute that does other work than forward is an error that says where, which tensor, what was
// saved and what came back.
#include "checkpoint/small_graphs.h"
#include "support/bitwise.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <functional>
#include <string>
#include <thread>
#include <utility>

namespace reprise::testing {
namespace {

/// What the region does in forward (false) and in recompute (true).
using Body = std::function<at::Tensor(at::Tensor, bool is_recompute)>;

struct Outcome {
  std::string message;  // empty: backward went through
  at::Tensor gradient;
};

Outcome backward(const CheckpointOptions& options, const Body& body) {
  const auto x = ramp_leaf({2, 3});
  bool is_recompute = false;
  const auto y = checkpoint(
      options, [&](at::Tensor h) { return body(std::move(h), is_recompute); }, x);
  is_recompute = true;
  try {
    y.sum().backward();
  } catch (const CheckpointError& error) {
    return {error.what(), {}};
  }
  return {"", x.grad()};
}

CheckpointOptions named(DeterminismCheck check, bool early_stop = true) {
  return {.early_stop = early_stop, .determinism_check = check, .name = "drifting"};
}

constexpr std::array kEveryCheck{
    DeterminismCheck::None, DeterminismCheck::Metadata, DeterminismCheck::Values};

TEST(Determinism, TheSameWorkPassesEveryCheck) {
  const auto plain = ramp_leaf({2, 3});
  plain.exp().sin().sum().backward();
  for (const auto check : kEveryCheck) {
    for (const bool early_stop : {false, true}) {
      const auto outcome =
          backward(named(check, early_stop), [](at::Tensor h, bool) { return h.exp().sin(); });
      EXPECT_EQ(outcome.message, "");
      EXPECT_TRUE(bitwise_equal(plain.grad(), outcome.gradient));
    }
  }
}

TEST(Determinism, FewerTensorsAreAlwaysAnError) {
  for (const auto check : kEveryCheck) {
    const auto [message, gradient] = backward(named(check), [](at::Tensor h, bool is_recompute) {
      h = h.exp();
      return is_recompute ? h : h.sin();
    });
    EXPECT_TRUE(
        contains(message, "region \"drifting\" saved 2 tensors for backward in forward but 1"));
    EXPECT_TRUE(contains(message, "the first that is missing was saved by SinBackward0"));
  }
}

TEST(Determinism, NoTensorAtAllIsAnErrorToo) {
  const auto [message, gradient] =
      backward(named(DeterminismCheck::Metadata),
               [](at::Tensor h, bool is_recompute) { return is_recompute ? h : h.sin(); });
  EXPECT_TRUE(contains(message, "saved 1 tensor for backward in forward but 0"));
}

TEST(Determinism, MoreTensorsAreAnErrorUnlessEarlyStopNeverSeesThem) {
  const Body body = [](at::Tensor h, bool is_recompute) {
    h = h.exp();
    return is_recompute ? h.sin().cos() : h + 1;
  };
  for (const auto check : kEveryCheck) {
    const auto [message, gradient] = backward(named(check, /*early_stop=*/false), body);
    EXPECT_TRUE(contains(message, "saved 1 tensor for backward in forward but 3"));
  }
}

TEST(Determinism, AnotherShapeNamesOpIndexAndBoth) {
  const Body body = [](at::Tensor h, bool is_recompute) {
    h = h.exp();
    return (is_recompute ? h.narrow(1, 0, 2) : h).sin();
  };
  for (const auto check : {DeterminismCheck::Metadata, DeterminismCheck::Values}) {
    const auto [message, gradient] = backward(named(check), body);
    EXPECT_TRUE(contains(message, "region \"drifting\" did different work"));
    EXPECT_TRUE(contains(message, "tensor #1 (saved by SinBackward0)"));
    EXPECT_TRUE(contains(
        message, "was Float [2, 3] on cpu in forward and came back as Float [2, 2] on cpu"));
  }
}

TEST(Determinism, AnotherDtypeNamesBoth) {
  const auto [message, gradient] =
      backward(named(DeterminismCheck::Metadata), [](at::Tensor h, bool is_recompute) {
        return (is_recompute ? h.to(torch::kDouble) : h).exp();
      });
  EXPECT_TRUE(contains(message, "tensor #0 (saved by ExpBackward0) was Float [2, 3] on cpu"));
  EXPECT_TRUE(contains(message, "came back as Double [2, 3] on cpu"));
}

TEST(Determinism, OtherValuesAreSeenUnlessNothingIsCompared) {
  // The smallest change: one element, in its last bit.
  const Body body = [](at::Tensor h, bool is_recompute) {
    auto y = h.exp();
    if (is_recompute) {
      y = y.clone();
      y.detach().view({-1})[5] = std::nextafter(y.detach().view({-1})[5].item<float>(), 100.0F);
    }
    return y.sin();
  };
  EXPECT_EQ(backward(named(DeterminismCheck::None), body).message, "");
  // All elements of so small a tensor are sampled.
  for (const auto check : {DeterminismCheck::Metadata, DeterminismCheck::Values}) {
    const auto message = backward(named(check), body).message;
    EXPECT_TRUE(contains(message, "tensor #1 (saved by SinBackward0, Float [2, 3] on cpu)"));
    EXPECT_TRUE(contains(message, "came back with different values: content hash"));
  }
}

TEST(Determinism, ValuesSeesSwappedElementsSignsAndZeros) {
  const auto differs = [](const std::function<at::Tensor(at::Tensor)>& change) {
    const auto message =
        backward(named(DeterminismCheck::Values), [&](at::Tensor h, bool is_recompute) {
          const auto factor = torch::tensor({0.0F, 1.0F, 2.0F, 3.0F, 4.0F, 5.0F}).view({2, 3});
          return h * (is_recompute ? change(factor) : factor);
        }).message;
    return contains(message, "different values");
  };
  EXPECT_TRUE(differs([](at::Tensor t) { return t.flip({1}); }));
  EXPECT_TRUE(differs([](at::Tensor t) { return t.flip({0}); }));
  EXPECT_TRUE(differs([](at::Tensor t) { return t.roll(1); }));
  EXPECT_TRUE(differs([](at::Tensor t) { return -t; }));
  EXPECT_TRUE(differs([](at::Tensor t) { return torch::where(t == 0, torch::tensor(-0.0F), t); }));
}

TEST(Determinism, ValuesHashesEveryDtypeAndLayoutOfMemory) {
  for (const auto dtype : {torch::kHalf, torch::kBFloat16, torch::kDouble, torch::kComplexFloat}) {
    for (const bool changes : {false, true}) {
      const auto message =
          backward(named(DeterminismCheck::Values), [&](at::Tensor h, bool is_recompute) {
            const auto wide = h.to(dtype).t().unsqueeze(0);  // not contiguous
            const auto factor = torch::ones({1, 3, 2}, dtype) * (changes && is_recompute ? 2 : 1);
            return torch::real(wide * factor).to(torch::kFloat);
          }).message;
      EXPECT_EQ(message.empty(), !changes) << c10::toString(dtype) << message;
    }
  }
  // Indices and masks that autograd saves are hashed like the rest.
  const auto message =
      backward(named(DeterminismCheck::Values), [](at::Tensor h, bool is_recompute) {
        return h.index_select(0, torch::tensor({is_recompute ? 1 : 0, 1}));
      }).message;
  EXPECT_TRUE(contains(message, "Long [2]"));
}

TEST(Determinism, ACapturedTensorChangedInPlaceIsSeenEvenIfNobodySavedIt) {
  // Plain autograd does not need the bias again; recompute does.
  for (const auto check : {DeterminismCheck::None, DeterminismCheck::Values}) {
    const auto x = ramp_leaf({2, 3});
    const auto bias = torch::zeros({3});
    const auto fn = [bias](at::Tensor h) { return (h + bias).exp(); };
    const auto y = checkpoint(named(check), fn, x).sum();
    bias.add_(1);
    const auto message = message_of<CheckpointError>([&] { y.backward(); });
    EXPECT_TRUE(contains(message, "modified by an inplace operation since forward"));
  }
}

TEST(Determinism, NoneSkipsWhatTheOthersSee) {
  const auto outcome = backward(named(DeterminismCheck::None), [](at::Tensor h, bool is_recompute) {
    return h * (is_recompute ? torch::ones({2, 1}) : torch::ones({2, 3}));
  });
  EXPECT_EQ(outcome.message, "");
}

TEST(Determinism, AMismatchInsideAnInnerRegionNamesTheInnerOne) {
  const auto x = ramp_leaf({2, 3});
  bool is_recompute = false;
  const auto inner = [&is_recompute](at::Tensor h) {
    return (is_recompute ? h.narrow(1, 0, 2) : h).exp().sum();
  };
  const auto outer = [inner](at::Tensor h) {
    return checkpoint({.name = "inner"}, inner, h.sin());
  };
  const auto y = checkpoint({.name = "outer"}, outer, x);
  is_recompute = true;
  const auto message = message_of<CheckpointError>([&] { y.backward(); });
  EXPECT_TRUE(contains(message, "region \"inner\" did different work"));
}

/// As attention on a GPU (here: meta) without dropout, which saves a seed that it never writes.
struct Seeded : torch::autograd::Function<Seeded> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x,
                            const at::Tensor& seed,
                            const at::Tensor& other) {
    context->save_for_backward({x, seed, other});
    return x.exp();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * context->get_saved_variables()[0].exp(), {}, {}};
  }
};

TEST(Determinism, SeedsThatAttentionOnAGpuDoesNotUseMayDiffer) {
  const auto saving_beside = [](c10::Device device) {
    return [device](at::Tensor h, bool is_recompute) {
      const auto seed = torch::full({}, is_recompute ? 1 : 2, at::kLong);
      return Seeded::apply(h, seed, torch::empty({2}, at::device(device)).fill_(3));
    };
  };
  EXPECT_EQ(backward(named(DeterminismCheck::Metadata), saving_beside(at::kMeta)).message, "");
  const auto message = backward(named(DeterminismCheck::Metadata), saving_beside(at::kCPU)).message;
  EXPECT_TRUE(contains(message, "came back with different values"));
}

TEST(Determinism, AUserHandlerCannotHideAMismatch) {
  const auto [message, gradient] =
      backward(named(DeterminismCheck::Metadata, false), [](at::Tensor h, bool is_recompute) {
        try {
          h = (is_recompute ? h.narrow(1, 0, 2) : h).exp();
        } catch (...) {
        }
        return h;
      });
  EXPECT_TRUE(contains(message, "region \"drifting\" did different work"));
}

// What messages advise.

TEST(DeterminismAdvice, NamesTheOperatorsInForwardsOrder) {
  const auto [message, gradient] =
      backward(named(DeterminismCheck::Metadata), [](at::Tensor h, bool is_recompute) {
        h = h.sin().exp().tanh();
        return is_recompute ? h : h.cos();
      });
  EXPECT_TRUE(contains(message,
                       "the first that is missing was saved by CosBackward0 after SinBackward0, "
                       "ExpBackward0, TanhBackward0"));
  EXPECT_TRUE(contains(message, "reprise::is_recomputing() tells the two runs apart"));
}

TEST(DeterminismAdvice, NamesWhatMadeTheFirstTensorThatIsNew) {
  const auto [message, gradient] = backward(named(DeterminismCheck::Metadata, /*early_stop=*/false),
                                            [](at::Tensor h, bool is_recompute) {
                                              h = h.exp();
                                              return is_recompute ? (h + 1).sin() : h;
                                            });
  EXPECT_TRUE(
      contains(message, "the first that is new came after ExpBackward0, made by AddBackward1"));
}

TEST(DeterminismAdvice, AnotherDtypeSuggestsAutocast) {
  const auto [message, gradient] =
      backward(named(DeterminismCheck::Metadata), [](at::Tensor h, bool is_recompute) {
        return (is_recompute ? h.to(torch::kBFloat16) : h).exp();
      });
  EXPECT_TRUE(contains(message, "look for an autocast scope"));
}

TEST(DeterminismAdvice, FewerDrawsSuggestAnotherMode) {
  torch::nn::Dropout dropout(0.5);
  const auto [message, gradient] =
      backward(named(DeterminismCheck::Metadata), [&](at::Tensor h, bool is_recompute) {
        dropout->train(!is_recompute);
        return dropout(h.exp()).sin();
      });
  EXPECT_TRUE(contains(message,
                       "Forward drew random numbers 1 time, the recompute 0: look for train() or "
                       "eval() in between"));
}

TEST(DeterminismAdvice, AnotherParameterSuggestsAModuleThatWasReplaced) {
  const auto old_weight = ramp_leaf({3, 3}), new_weight = ramp_leaf({3, 3}) * 2;
  const auto replaced = new_weight.detach().set_requires_grad(true);
  const auto [message, gradient] =
      backward(named(DeterminismCheck::Metadata), [&](at::Tensor h, bool is_recompute) {
        return h.mm(is_recompute ? replaced : old_weight).exp();
      });
  EXPECT_TRUE(
      contains(message, "It reads a parameter (CPUFloatType [3, 3]) that forward did not read"));
}

TEST(DeterminismAdvice, AnotherThreadSuggestsThreadLocals) {
  thread_local int of_this_thread = 0;
  of_this_thread = 1;
  const auto x = ramp_leaf({2, 3});
  const auto y = checkpoint(
      named(DeterminismCheck::Metadata),
      [](at::Tensor h) { return of_this_thread == 1 ? h.exp().sin() : h.exp(); },
      x);
  std::string message;
  std::thread([&] { message = message_of<CheckpointError>([&] { y.sum().backward(); }); }).join();
  EXPECT_TRUE(contains(message, "Forward ran on another thread: thread_local variables"));
  EXPECT_TRUE(backward(named(DeterminismCheck::Metadata), [](at::Tensor h, bool again) {
                return again ? h : h.exp();
              }).message.find("another thread") == std::string::npos);
}

}  // namespace
}  // namespace reprise::testing
