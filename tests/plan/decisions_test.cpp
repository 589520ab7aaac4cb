// Plans in effect: what they leave as it was, that they change no bits, and steps that differ from
// the plan.
#include "plan/chain.h"
#include "support/bitwise.h"
#include "support/clone_backend.h"
#include "support/zoo.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

namespace reprise::testing {
namespace {

using planning::trace_step;
using planning::TracedOp;

std::vector<at::Tensor> state_of(ZooModel& model) {
  std::vector<at::Tensor> state;
  for (const auto& parameter : model.parameters()) {
    state.push_back(parameter.detach().clone());
    state.push_back(parameter.grad().defined() ? parameter.grad().clone() : at::Tensor());
  }
  for (const auto& buffer : model.buffers()) {
    state.push_back(buffer.clone());
  }
  return state;
}

std::function<void()> step_of(const std::shared_ptr<ZooModel>& model, const at::Tensor& x) {
  return [model, x] { model->loss(x, with({.name = "region"})).backward(); };
}

TEST(Tracing, LeavesGradientsBuffersAndRandomStateUntouched) {
  for (const auto& entry : zoo()) {
    for (const bool has_gradients : {false, true}) {
      torch::manual_seed(3);
      const auto model = entry.make();
      const auto x = model->input();
      const auto step = step_of(model, x);
      if (has_gradients) {
        step();
      }
      std::vector<const void*> gradients;
      for (const auto& parameter : model->parameters()) {
        gradients.push_back(parameter.grad().defined() ? parameter.grad().data_ptr() : nullptr);
      }
      const auto before = state_of(*model);
      const auto random = at::detail::getDefaultCPUGenerator().get_state();
      trace_step(step, c10::kCPU);
      SCOPED_TRACE(entry.name);
      expect_bitwise_equal(state_of(*model), before);
      EXPECT_TRUE(torch::equal(at::detail::getDefaultCPUGenerator().get_state(), random));
      size_t i = 0;
      for (const auto& parameter : model->parameters()) {
        EXPECT_EQ(parameter.grad().defined() ? parameter.grad().data_ptr() : nullptr,
                  gradients[i++]);
      }
    }
  }
}

TEST(Tracing, LeavesStateUntouchedWhenTheStepThrows) {
  const auto model = std::make_shared<ConvNet>();
  const auto x = model->input();
  const auto before = state_of(*model);
  EXPECT_THROW(trace_step(
                   [&] {
                     model->loss(x, with({.name = "region"})).backward();
                     throw std::runtime_error("no");
                   },
                   c10::kCPU),
               std::runtime_error);
  expect_bitwise_equal(state_of(*model), before);
  trace_step(step_of(model, x), c10::kCPU);
}

TEST(Tracing, RefusesStepsWithNothingToPlan) {
  const auto x = torch::randn({4, 4}).requires_grad_();
  EXPECT_TRUE(contains(
      message_of<c10::Error>([&] { trace_step([&] { x.tanh().sum().backward(); }, c10::kCPU); }),
      "ran no region"));
  const auto region = [&] { return checkpoint([](const at::Tensor& h) { return h.tanh(); }, x); };
  EXPECT_TRUE(contains(message_of<c10::Error>([&] { trace_step([&] { region(); }, c10::kCPU); }),
                       "no backward"));
  const CheckpointOptions reentrant{.use_reentrant = true, .name = "old"};
  EXPECT_TRUE(contains(message_of<c10::Error>([&] {
                         trace_step(
                             [&] {
                               checkpoint(
                                   reentrant, [](const at::Tensor& h) { return h.tanh(); }, x)
                                   .sum()
                                   .backward();
                             },
                             c10::kCPU);
                       }),
                       "\"old\" asks for use_reentrant"));
}

TEST(Plan, ChangesNoBits) {
  for (const auto& entry : zoo()) {
    const auto run =
        [&](const std::function<std::vector<RegionDecision>(const planning::StepTrace&)>& decide) {
          torch::manual_seed(11);
          const auto model = entry.make();
          const auto x = model->input();
          const auto step = step_of(model, x);
          if (decide) {
            const auto trace = trace_step(step, c10::kCPU);
            run_planned(decide(trace), step);
          } else {
            model->loss(x, [](const Fn& fn, const at::Tensor& h) { return fn(h); }).backward();
          }
          auto state = state_of(*model);
          state.push_back(at::detail::getDefaultCPUGenerator().get_state());
          return state;
        };
    const auto expected = run({});
    SCOPED_TRACE(entry.name);
    expect_bitwise_equal(run(all_full), expected);
    expect_bitwise_equal(run(all_plain), expected);
    for (const size_t every : {1, 2, 3}) {
      size_t count = 0;
      expect_bitwise_equal(run([&](const planning::StepTrace& trace) {
                             auto decisions = keeping(trace, [&](size_t, const TracedOp&) {
                               return count++ % every == 0;
                             });
                             decisions[every % 2] = {.name = "region", .is_plain = true};
                             return decisions;
                           }),
                           expected);
    }
  }
}

TEST(Plan, ChangesNoBitsWhereItOffloads) {
  const BackendScope backend(std::make_shared<CloneBackend>(1, /*is_lazy=*/true));
  for (const auto& entry : zoo()) {
    const auto run = [&](bool is_planned) {
      torch::manual_seed(11);
      const auto model = entry.make();
      const auto step = step_of(model, model->input());
      if (is_planned) {
        const auto trace = trace_step(step, c10::kCPU);
        auto decisions = deciding(trace, [](size_t, const TracedOp&) { return Decision::Offload; });
        offload_inputs(trace, decisions);
        run_planned(decisions, step);
      } else {
        step();
      }
      return state_of(*model);
    };
    SCOPED_TRACE(entry.name);
    expect_bitwise_equal(run(true), run(false));
  }
}

/// Counts the calls of a block in a step under `decision`.
size_t runs_under(const RegionDecision& decision) {
  size_t runs = 0;
  const auto x = torch::randn({4, 4}).requires_grad_();
  run_planned({decision}, [&] {
    const auto fn = [&runs](const at::Tensor& h) {
      ++runs;
      return h.tanh().exp();
    };
    checkpoint(CheckpointOptions{.name = "a"}, fn, x).sum().backward();
  });
  return runs;
}

TEST(Plan, RunsPlainRegionsOnce) {
  EXPECT_EQ(runs_under({.name = "a", .is_plain = true}), 1U);
  EXPECT_EQ(runs_under({.name = "a"}), 2U);
}

TEST(Plan, CountsOnlyOutermostRegions) {
  const auto x = torch::randn({4, 4}).requires_grad_();
  const auto inner = [](const at::Tensor& h) { return h.tanh().exp(); };
  const auto outer = [inner](const at::Tensor& h) {
    return checkpoint(CheckpointOptions{.name = "inner"}, inner, h) * 2;
  };
  const auto step = [&] {
    auto y = checkpoint(CheckpointOptions{.name = "outer"}, outer, x);
    checkpoint(CheckpointOptions{.name = "last"}, inner, y).sum().backward();
  };
  const auto trace = trace_step(step, c10::kCPU);
  ASSERT_EQ(trace.regions.size(), 2U);
  EXPECT_EQ(trace.regions[0].name, "outer");
  step();
  const auto expected = x.grad().clone();
  for (const bool is_plain : {false, true}) {
    x.mutable_grad() = at::Tensor();
    // The backward call inside the scope makes inner regions again, which are not counted either.
    run_planned({{.name = "outer", .is_plain = is_plain}, {.name = "last"}}, step);
    EXPECT_TRUE(bitwise_equal(x.grad(), expected));
  }
}

/// How often each of four blocks of a chain runs in a step.
std::vector<size_t> runs_of_chain(const std::vector<RegionDecision>& decisions) {
  const auto runs = std::make_shared<std::vector<size_t>>(4);
  std::vector<Block> blocks;
  for (size_t i = 0; i < runs->size(); ++i) {
    blocks.emplace_back([runs, i](const at::Tensor& h, const std::vector<at::Tensor>& w) {
      ++(*runs)[i];
      return residual_block(h, w);
    });
  }
  const Chain chain(blocks);
  run_planned(decisions, [&] { chain.step(); });
  return *runs;
}

TEST(Plan, RunsJoinedRegionsAgainFromOneInput) {
  using Runs = std::vector<size_t>;
  const auto full = all_full(trace_step([chain = Chain(4)] { chain.step(); }, c10::kCPU));
  EXPECT_EQ(runs_of_chain(full), (Runs{2, 2, 2, 2}));
  EXPECT_EQ(runs_of_chain(joining(full, 0, 3, /*is_plain=*/true)), (Runs{2, 2, 2, 2}));
  // The outer recompute has the last one's input and stops there.
  EXPECT_EQ(runs_of_chain(joining(full, 0, 3, /*is_plain=*/false)), (Runs{3, 3, 3, 2}));
  EXPECT_EQ(runs_of_chain(joining(full, 1, 2, /*is_plain=*/false)), (Runs{2, 3, 2, 2}));
  auto mixed = joining(full, 0, 2, /*is_plain=*/true);
  mixed[1].is_plain = false;
  mixed[3].is_plain = true;
  EXPECT_EQ(runs_of_chain(mixed), (Runs{2, 3, 2, 1}));
}

TEST(Plan, JoinedRegionsChangeNoBits) {
  const Chain chain(4, [](const at::Tensor& h, const std::vector<at::Tensor>& w) {
    return h + torch::dropout(torch::mm(torch::mm(h, w[0]).tanh(), w[1]), 0.2, true);
  });
  const auto full = all_full(trace_step([&] { chain.step(); }, c10::kCPU));
  const auto gradients = [&](const std::vector<RegionDecision>& decisions) {
    torch::manual_seed(4);
    chain.clear_gradients();
    run_planned(decisions, [&] { chain.step(); });
    return chain.gradients();
  };
  const auto expected = gradients(full);
  for (const bool is_plain : {false, true}) {
    expect_bitwise_equal(gradients(joining(full, 0, 3, is_plain)), expected);
    const auto pair = joining(full, 0, 1, is_plain);
    expect_bitwise_equal(gradients(joining(pair, 2, 3, !is_plain)), expected);
  }
}

TEST(Plan, CountsJoinedRegionsByName) {
  const Chain chain(3);
  const auto full = all_full(trace_step([&] { chain.step(); }, c10::kCPU));
  record_checkpoint_stats(true);
  reset_checkpoint_stats();
  run_planned(joining(full, 0, 1, /*is_plain=*/true), [&] { chain.step(); });
  auto stats = checkpoint_stats();
  EXPECT_EQ(stats.total.entered, 2U);
  EXPECT_EQ(stats.regions.at("block0 to block1").recomputed, 1U);
  EXPECT_EQ(stats.regions.count("block0"), 0U);
  reset_checkpoint_stats();
  run_planned(joining(full, 0, 1, /*is_plain=*/false), [&] { chain.step(); });
  stats = checkpoint_stats();
  EXPECT_EQ(stats.regions.at("block0 to block1").recomputed, 1U);
  EXPECT_EQ(stats.regions.at("block0").entered, 2U);  // in forward and in the outer recompute
  EXPECT_EQ(stats.regions.at("block0").recomputed, 1U);
  EXPECT_EQ(stats.regions.at("block1").entered, 1U);
  EXPECT_EQ(stats.regions.at("block1").recomputed, 1U);
  record_checkpoint_stats(false);
}

struct TwoRegions {
  void operator()() const {
    const auto fn = [](const at::Tensor& h) { return h.tanh().exp(); };
    auto y = checkpoint(CheckpointOptions{.name = "a"}, fn, x);
    checkpoint(CheckpointOptions{.policy = policy, .name = "b"}, fn, y).sum().backward();
  }
  at::Tensor x = torch::randn({4, 4}).requires_grad_();
  std::shared_ptr<const Policy> policy = nullptr;
};

std::string refusal(const std::vector<RegionDecision>& decisions, const TwoRegions& step = {}) {
  return message_of<c10::Error>([&] { run_planned(decisions, step); });
}

TEST(Plan, RefusesStepsThatDiffer) {
  EXPECT_TRUE(contains(refusal({{.name = "a"}, {.name = "c"}}),
                       "region #1 of the step is \"b\"; the plan has \"c\" there"));
  EXPECT_TRUE(contains(refusal({{.name = "a"}}), "\"b\" after the 1 that were planned (\"a\")"));
  EXPECT_TRUE(contains(refusal({{.name = "a"}, {.name = "b"}, {.name = "c"}}),
                       "entered 2 regions; the plan has 3 (\"a\", \"b\", \"c\")"));
  EXPECT_TRUE(contains(
      refusal({{.name = "a"}, {.name = "b", .ops = {{.name = "aten::tanh", .call_index = 1}}}}),
      "1 results of aten::tanh were planned to be kept in a region that had 0"));
  EXPECT_TRUE(contains(
      refusal({{.name = "a", .is_plain = true, .ops = {{.name = "aten::tanh"}}}, {.name = "b"}}),
      "planned to run plainly and to keep 1"));
  EXPECT_TRUE(contains(refusal({{.name = "a"}, {.name = "b"}},
                               TwoRegions{.policy = policy::save_ops({"aten::tanh"})}),
                       "save_ops(aten::tanh), which the plan would override"));
  run_planned({{.name = "a"}, {.name = "b", .ops = {{.name = "aten::exp"}}}}, TwoRegions{});
}

TEST(Plan, RefusesWhatCannotBeJoined) {
  EXPECT_TRUE(contains(refusal({{.name = "a", .joined = 2}, {.name = "b"}}),
                       "\"a\" is planned to be joined with 2 regions after it, but only 1 follow"));
  EXPECT_TRUE(
      contains(refusal({{.name = "a", .joined = 2}, {.name = "b", .joined = 1}, {.name = "c"}}),
               "\"b\" is joined with \"a\" before it, so it can neither be joined with others"));
  EXPECT_TRUE(contains(refusal({{.name = "a", .joined = 1}, {.name = "b", .offload_inputs = true}}),
                       "nor offload inputs"));
  EXPECT_TRUE(contains(
      refusal({{.name = "a", .joined = 1}, {.name = "b", .ops = {{.name = "aten::tanh"}}}}),
      "\"b\" is joined with others and planned to keep 1"));
  // Nobody who could join them runs these two.
  EXPECT_TRUE(contains(refusal({{.name = "a", .joined = 1}, {.name = "b"}}),
                       "\"a\" is planned to be joined with 1 regions after it, but the code that "
                       "runs it can join 0"));
  const Chain chain(2);
  EXPECT_TRUE(contains(
      message_of<c10::Error>([&] {
        run_planned({{.name = "block0", .joined = 1}, {.name = "other"}}, [&] { chain.step(); });
      }),
      "is \"block1\"; the plan has \"other\" there"));
}

TEST(Plan, RefusesWhatItDecidesItselfAndWhatContradictsItself) {
  const auto asking = [](const CheckpointOptions& options) {
    return message_of<c10::Error>([&] {
      run_planned({{.name = "a"}}, [&] {
        const auto fn = [](const at::Tensor& h) { return h.tanh(); };
        checkpoint(options, fn, torch::randn({4, 4}).requires_grad_()).sum().backward();
      });
    });
  };
  EXPECT_TRUE(contains(asking({.offload_inputs = true, .name = "a"}), "asks for offload_inputs"));
  EXPECT_TRUE(contains(asking({.allow_lossy = true, .name = "a"}), "asks for allow_lossy"));
  const auto scope = [] { return std::make_shared<int>(); };
  EXPECT_TRUE(contains(asking({.forward_scope = scope, .name = "a"}), "forward_scope"));
  EXPECT_TRUE(contains(asking({.recompute_scope = scope, .name = "a"}), "recompute_scope"));
  EXPECT_TRUE(
      contains(refusal({{.name = "a", .is_plain = true, .offload_inputs = true}, {.name = "b"}}),
               "plainly and to offload its inputs"));
  EXPECT_TRUE(
      contains(refusal({{.name = "a", .allow_lossy = true}, {.name = "b"}}), "compresses nothing"));
}

TEST(Plan, OffloadsAndCompressesWithoutChangingBits) {
  const BackendScope backend(std::make_shared<CloneBackend>(1, /*is_lazy=*/true));
  const Chain chain(3, [](const at::Tensor& h, const std::vector<at::Tensor>& w) {
    return h + torch::mm(torch::dropout(torch::mm(h, w[0]).tanh(), 0.2, true), w[1]);
  });
  const auto step = [&chain] {
    torch::manual_seed(3);
    chain.step();
  };
  step();
  const auto expected = chain.gradients();
  const auto trace = trace_step(step, c10::kCPU);
  auto decisions = deciding(trace, [](size_t, const TracedOp& op) {
    return op.op_class == OpClass::Matmul                 ? Decision::Offload
           : op.name.find("dropout") != std::string::npos ? Decision::Compress
                                                          : Decision::Recompute;
  });
  offload_inputs(trace, decisions);
  chain.clear_gradients();
  run_planned(decisions, step);
  expect_bitwise_equal(chain.gradients(), expected);
  EXPECT_GT(offload_use().host_bytes_peak, 0);
}

TEST(MemoryPlan, UsesHostMemoryWhereItIsGiven) {
  using namespace reprise::literals;
  const BackendScope backend(std::make_shared<CloneBackend>(kSmallestMovedBytes, /*is_lazy=*/true));
  const Chain chain(8);
  const auto step = [&chain] { chain.step(); };
  step();
  const auto expected = chain.gradients();
  chain.clear_gradients();
  const auto without = plan(step, c10::kCPU, {.budget = 1_GiB});
  EXPECT_EQ(without.host_bytes(), 0);
  const auto most = plan(step, c10::kCPU, {.budget = 1_GiB, .host_budget = 64_MiB});
  const auto least = most.with_budget(most.curve().front().peak_bytes);
  EXPECT_LT(least.peak_bytes(), without.curve().front().peak_bytes);
  EXPECT_TRUE(contains(least.describe(), "MiB of host memory")) << least.describe();
  EXPECT_TRUE(contains(least.describe(), "offloaded:")) << least.describe();
  trim_offload_memory();
  const reprise::PlanGuard use(least);
  step();
  use.finish();
  expect_bitwise_equal(chain.gradients(), expected);
  EXPECT_EQ(offload_use().host_bytes_peak, least.host_bytes());
  EXPECT_LE(least.host_bytes(), 64_MiB);
}

TEST(MemoryPlan, MarksWhatIsLossy) {
  using namespace reprise::literals;
  const Chain chain(3);
  const auto plans =
      plan([&chain] { chain.step(); }, c10::kCPU, {.budget = 1_GiB, .allow_lossy = true});
  for (const auto& point : plans.curve()) {
    const auto one = plans.with_budget(point.peak_bytes);
    bool is_lossy = false;
    for (const auto& decision : one.decisions()) {
      is_lossy = is_lossy || decision.allow_lossy;
    }
    EXPECT_EQ(contains(one.describe(), "LOSSY"), is_lossy) << one.describe();
  }
}

TEST(MemoryPlan, RefusesAHostBudgetBeyondTheOneThatHolds) {
  using namespace reprise::literals;
  const BackendScope backend(std::make_shared<CloneBackend>(1, /*is_lazy=*/false));
  set_offload_settings({.host_budget = 1_MiB});
  const Chain chain(1);
  EXPECT_TRUE(
      contains(message_of<c10::Error>([&] {
                 plan([&] { chain.step(); }, c10::kCPU, {.budget = 1_GiB, .host_budget = 2_MiB});
               }),
               "set_offload_settings allows"));
}

TEST(Plan, IsOverWhenItsScopeIs) {
  const TwoRegions step;
  { const planning::DecisionsGuard guard(planning::step_decisions({{.name = "a"}})); }
  step();
  EXPECT_TRUE(step.x.grad().defined());
}

}  // namespace
}  // namespace reprise::testing
