// NamedRange and policy::save_named: which results are kept, how ranges nest, and what is refused.
#include "checkpoint/small_graphs.h"
#include "support/bitwise.h"
#include "support/error_text.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

using policy::save_named;

/// Three matrix products, of which the second is in a range.
at::Tensor three_products(const at::Tensor& w, at::Tensor h) {
  h = torch::mm(h, w).tanh();
  {
    const NamedRange range("scores");
    h = torch::mm(h, w).sigmoid();
  }
  return torch::mm(h, w).tanh();
}

/// The ranges in which a policy sees each call of `op`.
template <class Fn>
std::vector<std::string> ranges_of(const std::string& op, Fn fn) {
  auto ranges = std::make_shared<std::vector<std::string>>();
  checkpoint({.policy = policy::from([ranges, op](const OpContext& call) {
                if (call.name == op) {
                  ranges->emplace_back(call.range);
                }
                return Decision::Recompute;
              })},
             fn,
             float_leaf({4, 4}));
  return *ranges;
}

/// Operators replayed and run again in one backward.
std::pair<size_t, size_t> replays(const CheckpointOptions& options, const Fn& fn) {
  record_checkpoint_stats(true);
  reset_checkpoint_stats();
  checkpoint(options, fn, float_leaf({4, 4})).sum().backward();
  const auto stats = checkpoint_stats().total;
  record_checkpoint_stats(false);
  return {stats.ops_replayed, stats.ops_recomputed};
}

void expect_same_gradients(const CheckpointOptions& options, const Fn& fn) {
  const auto gradients = [](const auto& call) {
    const auto x = float_leaf({4, 4});
    const auto y = call(x);
    y.sum().backward({}, /*retain_graph=*/true);
    y.square().sum().backward();
    return x.grad();
  };
  EXPECT_TRUE(bitwise_equal(
      gradients(fn), gradients([&](const at::Tensor& x) { return checkpoint(options, fn, x); })));
}

TEST(NamedRanges, KeepWhatIsComputedInThem) {
  const auto w = float_leaf({4, 4}, 5);
  const Fn fn = [w](at::Tensor h) { return three_products(w, std::move(h)); };
  // mm, tanh | mm, sigmoid | mm; the last tanh is saved first thing after it: early stop.
  const auto everything = replays({.early_stop = false, .policy = policy::full()}, fn);
  const auto named = replays({.early_stop = false, .policy = save_named({"scores"})}, fn);
  EXPECT_EQ(everything.first, 0u);
  EXPECT_EQ(named.first, 2u);
  EXPECT_EQ(named.second + 2, everything.second);
  expect_same_gradients({.policy = save_named({"scores"})}, fn);
}

TEST(NamedRanges, InALoopAreKeptEachTime) {
  const auto w = float_leaf({4, 4}, 5);
  const Fn fn = [w](at::Tensor h) {
    for (int i = 0; i < 3; ++i) {
      {
        const NamedRange range(i == 1 ? "odd" : "even");
        h = torch::mm(h, w);
      }
      h = h.tanh();
    }
    return h;
  };
  EXPECT_EQ(replays({.policy = save_named({"even"})}, fn).first, 2u);
  EXPECT_EQ(replays({.policy = save_named({"odd"})}, fn).first, 1u);
  EXPECT_EQ(replays({.policy = save_named({"odd", "even"})}, fn).first, 3u);
  expect_same_gradients({.policy = save_named({"even"})}, fn);
}

TEST(NamedRanges, NestAndJoinTheirNames) {
  const Fn fn = [](at::Tensor h) {
    const NamedRange attention("attention");
    h = h.tanh();
    {
      const NamedRange scores("scores");
      h = h.tanh();
    }
    return h.tanh();
  };
  EXPECT_EQ(ranges_of("aten::tanh", fn),
            (std::vector<std::string>{"attention", "attention/scores", "attention"}));
  EXPECT_EQ(replays({.policy = save_named({"scores"})}, fn).first, 1u);
  EXPECT_EQ(replays({.policy = save_named({"attention/scores"})}, fn).first, 1u);
  EXPECT_EQ(replays({.early_stop = false, .policy = save_named({"attention"})}, fn).first, 3u);
  for (const auto* name :
       {"score", "tention", "scores/attention", "attention/", "attention/score"}) {
    EXPECT_THROW(replays({.policy = save_named({name})}, fn), CheckpointError) << name;
  }
}

TEST(NamedRanges, AreThoseOfTheRegionItself) {
  const Fn inner = [](at::Tensor h) { return h.tanh().exp(); };
  std::vector<std::string> seen;
  {
    const NamedRange around("around");
    EXPECT_EQ(ranges_of("aten::tanh", inner), std::vector<std::string>{""});
    seen = ranges_of("aten::exp", [&inner](at::Tensor h) {
      const NamedRange range("outer");
      h = checkpoint(inner, h).exp();  // the policy of the outer region does not see the inner one
      return h;
    });
  }
  EXPECT_EQ(seen, std::vector<std::string>{"outer"});
}

TEST(NamedRanges, OfNestedRegionsBelongToTheInnermost) {
  const auto w = float_leaf({4, 4}, 5);
  const Fn inner = [w](at::Tensor h) { return three_products(w, std::move(h)); };
  const Fn outer = [inner](at::Tensor h) {
    const NamedRange range("around");
    h = h.exp();
    return checkpoint({.policy = save_named({"scores"})}, inner, h).tanh();
  };
  expect_same_gradients({.policy = save_named({"around"})}, outer);
  EXPECT_TRUE(contains(
      message_of<CheckpointError>([&] { replays({.policy = save_named({"scores"})}, outer); }),
      "save_named(scores)"));
}

TEST(NamedRanges, KeepNoViewsFactoriesAndWrites) {
  const Fn fn = [](at::Tensor h) {
    const NamedRange range("mixed");
    auto rows = (h * 2).t();
    rows.mul_(torch::ones({4, 4}));
    rows.add_(1);
    return rows.sin().cos();
  };
  EXPECT_EQ(replays({.early_stop = false, .policy = save_named({"mixed"})}, fn).first, 3u);
  expect_same_gradients({.policy = save_named({"mixed"})}, fn);
}

TEST(NamedRanges, KeepWhatWasDrawn) {
  const Fn fn = [](at::Tensor h) {
    const auto dropped = [&h] {
      const NamedRange range("noise");
      return torch::dropout(h, 0.5, true);
    }();
    return torch::dropout(dropped.tanh(), 0.5, true);
  };
  const auto gradient = [](const auto& call) {
    torch::manual_seed(7);
    const auto x = float_leaf({8, 8});
    call(x).sum().backward();
    return std::pair(x.grad(), torch::rand({2}));
  };
  const auto plain = gradient(fn);
  const auto kept = gradient(
      [&fn](const at::Tensor& x) { return checkpoint({.policy = save_named({"noise"})}, fn, x); });
  EXPECT_TRUE(bitwise_equal(plain.first, kept.first));
  EXPECT_TRUE(bitwise_equal(plain.second, kept.second));
}

TEST(NamedRanges, ANameWithoutARangeIsAnErrorWhenTheRegionEnds) {
  const auto w = float_leaf({4, 4}, 5);
  const Fn fn = [w](at::Tensor h) { return three_products(w, std::move(h)); };
  const auto refusal = [&fn](std::vector<std::string> names) {
    return message_of<CheckpointError>([&] {
      checkpoint({.policy = save_named(std::move(names)), .name = "block"}, fn, float_leaf({4, 4}));
    });
  };
  EXPECT_TRUE(contains(refusal({"scores", "score"}), "NamedRange \"score\""));
  EXPECT_TRUE(contains(refusal({"mlp"}), "save_named(mlp)"));
  EXPECT_TRUE(contains(refusal({}), "at least one name"));
  EXPECT_TRUE(contains(refusal({"scores", ""}), "no empty one"));
  EXPECT_TRUE(contains(message_of<CheckpointError>([] { const NamedRange range(""); }), "a name"));
}

TEST(NamedRanges, EndWithAnException) {
  const Fn fails = [](at::Tensor h) -> at::Tensor {
    const NamedRange range("failing");
    TORCH_CHECK(!h.defined(), "fails");
    return h;
  };
  EXPECT_THROW(checkpoint(fails, float_leaf({2})), c10::Error);
  EXPECT_EQ(ranges_of("aten::tanh", [](at::Tensor h) { return h.tanh(); }),
            std::vector<std::string>{""});
}

TEST(NamedRanges, WithoutAPolicyHaveNoEffect) {
  const auto w = float_leaf({4, 4}, 5);
  const Fn fn = [w](at::Tensor h) { return three_products(w, std::move(h)); };
  expect_same_gradients({}, fn);
  const NamedRange outside("outside");
  expect_same_gradients({.use_reentrant = false, .determinism_check = DeterminismCheck::Values},
                        fn);
}

}  // namespace
}  // namespace reprise::testing
