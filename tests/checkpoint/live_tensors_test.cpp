// LiveTensorReport: what is alive, who made it, and what an out-of-memory error says about it.
#include "checkpoint/counted_tensors.h"
#include "checkpoint/small_graphs.h"
#include "support/bitwise.h"
#include "support/error_text.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

namespace reprise::testing {
namespace {

/// What an allocator throws where memory runs out.
at::Tensor failing_allocation(const at::Tensor& like) {
  TORCH_CHECK_WITH(OutOfMemoryError, like.dim() > 9, "no memory for ", like.nbytes(), " bytes");
  return at::empty_like(like);
}

at::Tensor call_failing_allocation(const at::Tensor& like) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow("live_tensors::fail", "")
      .typed<at::Tensor(const at::Tensor&)>()
      .call(like);
}

/// The live tensors of one kind, in tensors of the usual size.
int64_t alive(const LiveTensorReport& live,
              const std::string& op,
              const std::string& region = "",
              const std::string& phase = "forward") {
  const auto groups = live.groups();
  const auto found = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
    return group.op == op && group.region == region && group.phase == phase;
  });
  if (found == groups.end()) {
    return 0;
  }
  EXPECT_EQ(static_cast<int64_t>(found->count), in_tensors(found->bytes));
  return in_tensors(found->bytes);
}

TEST(LiveTensors, ListsWhatIsAliveAndForgetsWhatDied) {
  const auto x = counted_input();
  const LiveTensorReport live;
  EXPECT_TRUE(live.groups().empty());
  auto kept = x.tanh();
  const auto view = kept.view({-1});
  kept.detach().add_(1);
  x.exp();
  {
    const auto products = std::vector{torch::mm(kept, x), torch::mm(kept, x)};
    EXPECT_EQ(alive(live, "aten::mm"), 2);
    EXPECT_EQ(live.groups().front().op, "aten::mm");  // the most bytes first
  }
  EXPECT_EQ(alive(live, "aten::mm"), 0);
  EXPECT_EQ(alive(live, "aten::exp"), 0);
  EXPECT_EQ(alive(live, "aten::tanh"), 1);
  EXPECT_EQ(live.groups().size(), 1u);
  kept.reset();
  EXPECT_EQ(alive(live, "aten::tanh"), 1);  // the view holds it
}

TEST(LiveTensors, HoldsNoTensors) {
  const auto x = counted_input();
  const LiveTensorReport live;
  const auto before = live_bytes(c10::kCPU);
  for (int i = 0; i < 5000; ++i) {
    torch::ones({4}).mul(2);
  }
  deep(6)(x).sum().backward();
  x.mutable_grad() = at::Tensor();
  EXPECT_EQ(in_tensors(live_bytes(c10::kCPU) - before), 0);
}

TEST(LiveTensors, NamesTheRegion) {
  const auto x = counted_input();
  const LiveTensorReport live;
  std::vector<int64_t> inside;
  std::vector<int64_t> remade;
  const Fn fn = [&](at::Tensor h) {
    h = h.tanh();
    const auto second = h.tanh();
    inside.push_back(alive(live, "aten::tanh", "region \"block\""));
    remade.push_back(alive(live, "aten::tanh", "region \"block\"", "recompute"));
    return second.exp();
  };
  const auto y = checkpoint({.name = "block"}, fn, x);
  EXPECT_EQ(alive(live, "aten::tanh", "region \"block\""), 0);
  EXPECT_EQ(alive(live, "aten::exp", "region \"block\""), 1);  // the result
  y.sum().backward();
  EXPECT_EQ(inside, (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(remade, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(alive(live, "aten::tanh", "region \"block\"", "recompute"), 0);
}

TEST(LiveTensors, NamesNestedAndReentrantRegionsAndKeptResults) {
  const auto x = counted_input();
  const LiveTensorReport live;
  const Fn inner = [](at::Tensor h) { return h.tanh(); };
  const auto y = checkpoint(
      {.policy = policy::save_ops({"aten::sin"}), .name = "outer"},
      [&](at::Tensor h) { return checkpoint({.name = "inner"}, inner, h.sin()).exp(); },
      x);
  EXPECT_EQ(alive(live, "aten::sin", "region \"outer\""), 1);  // the policy keeps it
  EXPECT_EQ(alive(live, "aten::tanh", "region \"inner\""), 0);
  const auto z = checkpoint({.use_reentrant = true, .name = "older"}, inner, x);
  EXPECT_EQ(alive(live, "aten::tanh", "region \"older\""), 1);
  (y.sum() + z.sum()).backward();
  EXPECT_EQ(alive(live, "aten::cos"), 0);
}

TEST(LiveTensors, FollowsARecomputeToAnotherThread) {
  const auto x = counted_input();
  const LiveTensorReport live;
  std::vector<int64_t> remade;
  const auto y = checkpoint(
      {.early_stop = false, .name = "block"},
      [&](at::Tensor h) {
        h = h.tanh();
        remade.push_back(alive(live, "aten::tanh", "region \"block\"", "recompute"));
        return h.exp();
      },
      x);
  std::thread([&y] { y.sum().backward(); }).join();
  EXPECT_EQ(remade, (std::vector<int64_t>{0, 1}));
}

TEST(LiveTensors, ChangesNoBitAndEnds) {
  const auto run = [] {
    torch::manual_seed(3);
    const auto x = float_leaf({8, 8});
    checkpoint(
        {.policy = policy::save_ops({"aten::tanh"})},
        [](at::Tensor h) { return torch::dropout(h.tanh(), 0.5, true).exp(); },
        x)
        .sum()
        .backward();
    return x.grad();
  };
  const auto plain = run();
  {
    const LiveTensorReport live;
    EXPECT_TRUE(bitwise_equal(plain, run()));
  }
  EXPECT_TRUE(bitwise_equal(plain, run()));
  // A graph that was made under a report outlives it.
  const auto x = counted_input();
  const auto y = [&x] {
    const LiveTensorReport live;
    return checkpoint(deep(3), x);
  }();
  y.sum().backward();
  EXPECT_TRUE(x.grad().defined());
}

TEST(LiveTensors, IsATableOfTheLargest) {
  const auto x = counted_input();
  const LiveTensorReport live;
  const auto kept = std::vector{x.tanh(), x.tanh(), x.exp(), x.narrow(0, 0, 4).sin()};
  const auto table = live.report(2);
  EXPECT_TRUE(contains(table, "4, 772 KiB"));
  EXPECT_TRUE(contains(table, "512 KiB      2 x aten::tanh, outside of regions\n"));
  EXPECT_TRUE(contains(table, "256 KiB      1 x aten::exp, outside of regions\n"));
  EXPECT_TRUE(contains(table, "4 KiB      1 x others"));
  EXPECT_FALSE(contains(live.report(), "others"));
}

TEST(LiveTensors, AreInTheMessageOfAnOutOfMemoryErrorInForward) {
  const auto x = counted_input();
  const auto fail = [&x] {
    return message_of<c10::OutOfMemoryError>([&x] {
      checkpoint(
          {.name = "block"},
          [](at::Tensor h) {
            const auto temporary = h.tanh();
            return call_failing_allocation(temporary);
          },
          x);
    });
  };
  EXPECT_FALSE(contains(fail(), "Live tensors"));
  const LiveTensorReport live;
  const auto before = x.exp();
  const auto message = fail();
  EXPECT_TRUE(contains(message, "no memory for 262144 bytes"));
  EXPECT_TRUE(contains(message, "while running region \"block\""));
  // What the failed region held is gone when the error arrives, but not from the table.
  EXPECT_TRUE(contains(message, "256 KiB      1 x aten::tanh, region \"block\""));
  EXPECT_TRUE(contains(message, "256 KiB      1 x aten::exp, outside of regions"));
  EXPECT_EQ(alive(live, "aten::tanh", "region \"block\""), 0);
}

TEST(LiveTensors, AreInTheMessageOfAnOutOfMemoryErrorInARecompute) {
  const auto x = counted_input();
  const LiveTensorReport live;
  const auto y = checkpoint(
      {.name = "block"},
      [](at::Tensor h) {
        h = h.tanh();
        return (is_recomputing() ? call_failing_allocation(h) : h).exp();
      },
      x);
  const auto message = message_of<c10::Error>([&] { y.sum().backward(); });
  EXPECT_TRUE(contains(message, "while recomputing region \"block\""));
  EXPECT_TRUE(contains(message, "1 x aten::tanh, region \"block\", recompute"));
  EXPECT_TRUE(contains(message, "1 x aten::exp, region \"block\"\n"));
}

TEST(LiveTensors, OtherErrorsAreLeftAlone) {
  const LiveTensorReport live;
  const auto message = message_of<c10::Error>([] {
    torch::mm(torch::ones({2, 3}), torch::ones({2, 3}));
  });
  EXPECT_FALSE(contains(message, "Live tensors"));
}

TEST(LiveTensors, ThereIsOnePerThreadOutsideOfRegions) {
  const LiveTensorReport live;
  EXPECT_THROW(LiveTensorReport(), CheckpointError);
  std::thread([] { const LiveTensorReport other; }).join();
}

}  // namespace
}  // namespace reprise::testing

TORCH_LIBRARY(live_tensors, m) {
  m.def("fail(Tensor like) -> Tensor");
}

TORCH_LIBRARY_IMPL(live_tensors, CompositeExplicitAutograd, m) {
  m.impl("fail", &reprise::testing::failing_allocation);
}
