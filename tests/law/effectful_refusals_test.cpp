// What effectful operators cannot do in regions, what they cost, and what messages say.
#include "law/effectful_operators.h"
#include "law/programs.h"

namespace reprise::testing {
namespace {

using namespace effectful;

/// The message about a region that calls the operator `name`.
std::string refusal_of(const std::string& name, const CheckpointOptions& options = {}) {
  return message_of<CheckpointError>([&] {
    checkpoint(
        options,
        [name](at::Tensor h) {
          const auto y = call<at::Tensor, const at::Tensor&>(("reprise_once::" + name).c_str(), h);
          return y.exp();
        },
        sine_leaf({4}))
        .sum()
        .backward();
  });
}

TEST(EffectfulOperators, ThatCannotBeLeftOutAreRefused) {
  for (const auto& way : all_ways()) {
    SCOPED_TRACE(way.name());
    const auto options = way.options();
    EXPECT_TRUE(contains(refusal_of("view", options), "shares memory with one of its arguments"));
    EXPECT_TRUE(contains(refusal_of("both", options), "whose result may need a gradient"));
    EXPECT_TRUE(
        contains(refusal_of("hidden", options), "Register the operator that the kernel calls"));
  }
}

TEST(EffectfulOperators, AnInferredSchemaThatReturnsNothingIsRefused) {
  const auto run = [](const CheckpointOptions& options) {
    checkpoint(
        options,
        [](at::Tensor h) {
          call<void, const at::Tensor&>("reprise_once::unclear", h);
          return h.exp();
        },
        sine_leaf({4}))
        .sum()
        .backward();
  };
  for (const auto& way : all_ways()) {
    const auto message = message_of<CheckpointError>([&] { run(way.options()); });
    EXPECT_TRUE(contains(message, "reprise_once::unclear"));
    EXPECT_TRUE(contains(message, "does not say whether it writes an argument"));
  }
  register_effectful_op("reprise_once::unclear");
  reset();
  run({.early_stop = false});
  EXPECT_EQ(runs(), 1);
}

TEST(EffectfulOperators, SomeCannotBeDeclared) {
  const auto message_about = [](const char* name) {
    return message_of<CheckpointError>([name] { register_effectful_op(name); });
  };
  EXPECT_TRUE(contains(message_about("aten::mm"), "one of LibTorch's"));
  EXPECT_TRUE(contains(message_about("reprise_once::writes"), "writes or returns its arguments"));
  EXPECT_TRUE(contains(message_about("reprise_once::dict"), "Dict(str, Tensor)"));
  EXPECT_TRUE(contains(message_about("reprise_once::lok"), "Did you mean \"reprise_once::log\"?"));
}

TEST(EffectfulOperators, APolicyCannotNameThem) {
  EXPECT_TRUE(
      contains(message_of<CheckpointError>([] { policy::save_ops({"reprise_once::scaled"}); }),
               "is an effectful operator"));
}

// The recompute must not run what forward did not run: the step fails instead.
TEST(EffectfulOperators, ARecomputeThatCallsOthersIsRefused) {
  for (const auto& way : all_ways()) {
    SCOPED_TRACE(way.name());
    reset();
    const auto fn = [](at::Tensor h) {
      if (is_recomputing()) {
        report(h);
      }
      return scaled(h.sin()).exp();
    };
    const auto y = checkpoint(way.options(), fn, sine_leaf({4}, 1));
    EXPECT_TRUE(contains(message_of<c10::Error>([&] { y.sum().backward(); }),
                         "effectful operator #0 is reprise_once::log, which was another one"));
    EXPECT_EQ(runs(), 1);
  }
}

TEST(EffectfulOperators, InABackwardCallInsideARegionAreRefused) {
  struct Logging : torch::autograd::Function<Logging> {
    static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
      return x.clone();
    }
    static torch::autograd::tensor_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::tensor_list grads) {
      report(grads[0]);
      return grads;
    }
  };
  const auto fn = [](at::Tensor h) {
    auto inner = h.detach().set_requires_grad(true);
    return h * torch::autograd::grad({Logging::apply(inner).sin().sum()}, {inner})[0];
  };
  EXPECT_TRUE(contains(message_of<CheckpointError>([&] { checkpoint(fn, sine_leaf({4})); }),
                       "in a backward call inside a region"));
}

TEST(EffectfulOperators, BytesOfKeptResultsAreCounted) {
  for (const bool reentrant : {false, true}) {
    record_checkpoint_stats(true);
    reset_checkpoint_stats();
    const auto fn = [](at::Tensor h) {
      const auto n = noise(h.detach()), unchanged = pass(h);
      return (h.sin() * n).exp() + unchanged;
    };
    auto y = checkpoint({.use_reentrant = reentrant, .early_stop = true}, fn, sine_leaf({64, 64}));
    EXPECT_EQ(checkpoint_stats().total.bytes_kept, 64 * 64 * 4);
    y.sum().backward();
    EXPECT_EQ(checkpoint_stats().total.ops_replayed, 2);
    record_checkpoint_stats(false);
  }
}

TEST(EffectfulOperators, ResultsAreFreedWithTheGraph) {
  c10::weak_intrusive_ptr<c10::StorageImpl> weak{c10::intrusive_ptr<c10::StorageImpl>()};
  {
    const auto fn = [&weak](at::Tensor h) {
      const auto n = noise(h.detach());
      if (!is_recomputing()) {
        weak = n.storage().getWeakStorageImpl();
      }
      return (h.sin() * n).exp();
    };
    const auto y = checkpoint(fn, sine_leaf({4}));
    EXPECT_FALSE(weak.expired());
    y.sum().backward({}, /*keep_graph=*/true);
  }
  EXPECT_TRUE(weak.expired());
}

}  // namespace
}  // namespace reprise::testing
