// The trace of a step against what can be counted by hand, and the bytes that it predicts against
// those of real steps.
#include "plan/chain.h"
#include "plan/region_names.h"
#include "plan/trace/trace_between.h"
#include "support/clone_backend.h"
#include "support/devices.h"
#include "support/zoo.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

using planning::predict_peaks;
using planning::StepTrace;
using planning::trace_step;
using planning::TracedOp;

TEST(Trace, ListsOperatorsWithBytesAndWhatIsSaved) {
  const Chain chain(3);
  const auto trace = trace_of(chain);
  ASSERT_EQ(trace.regions.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    const auto& region = trace.regions[i];
    EXPECT_EQ(region.name, "block" + std::to_string(i));
    ASSERT_EQ(names_of(region),
              (std::vector<std::string>{"aten::mm", "aten::tanh", "aten::mm", "aten::add.Tensor"}));
    for (const auto& op : region.ops) {
      EXPECT_EQ(op.bytes, kTensor);
      EXPECT_EQ(op.workspace_bytes, 0) << op.name;
      EXPECT_TRUE(op.can_keep);
      EXPECT_EQ(op.is_saved, op.name == "aten::tanh") << op.name;
      EXPECT_GT(op.forward_ms, 0);
    }
    EXPECT_EQ(region.ops[0].call_index, 0U);
    EXPECT_EQ(region.ops[2].call_index, 1U);
    EXPECT_EQ(region.ops[0].op_class, OpClass::Matmul);
    // The second product saves its arguments before it computes: there the recompute stops.
    EXPECT_EQ(region.rerun_ops, 2U);
    EXPECT_EQ(region.saved_bytes, kTensor);
    EXPECT_EQ(region.output_bytes, kTensor);
    EXPECT_EQ(region.input_bytes, i == 0 ? 0 : kTensor);
    EXPECT_EQ(region.log_bytes, 0);
    EXPECT_EQ(region.entry_bytes, static_cast<int64_t>(i) * kTensor);
    EXPECT_EQ(region.forward_peak, 4 * kTensor);  // temporaries live to the end of the statement
    EXPECT_GT(region.forward_ms, region.ops[0].forward_ms);
    EXPECT_GT(region.recompute_ms, 0);
    EXPECT_GT(region.backward_ms, 0);
  }
  EXPECT_EQ(trace.regions[1].kind, trace.regions[2].kind);
  EXPECT_NE(trace.regions[0].kind, trace.regions[1].kind);  // its input is not the step's
  EXPECT_EQ(trace.kinds.size(), 2U);
  EXPECT_EQ(trace.head_bytes, 3 * kTensor);
}

TEST(Trace, ViewsFactoriesAndWritesCannotBeKept) {
  const Chain chain(1, [](const at::Tensor& h, const std::vector<at::Tensor>& w) {
    auto y = torch::mm(h, w[0]).view({kSide / 2, -1});
    y = y + torch::ones_like(y);
    return y.relu_().view({kSide, kSide});
  });
  const auto trace = trace_of(chain);
  for (const auto& op : trace.regions[0].ops) {
    const bool can =
        op.name == "aten::mm" || op.name == "aten::add" || op.name == "aten::empty_like";
    if (op.name == "aten::view" || op.name == "aten::relu_" || op.name == "aten::fill_") {
      EXPECT_EQ(op.bytes, 0) << op.name;
      EXPECT_FALSE(op.can_keep) << op.name;
    } else if (can) {
      EXPECT_EQ(op.bytes, kTensor) << op.name;
    }
  }
}

/// Softmax makes a transposed argument contiguous: one tensor that it does not return.
at::Tensor block_with_workspace(const at::Tensor& h, const std::vector<at::Tensor>& w) {
  auto y = torch::mm(h, w[0]);
  y = torch::softmax(y.t(), -1);
  return torch::mm(y, w[1]);
}

TEST(Trace, SeesTheWorkspaceOfAnOperator) {
  const auto trace = trace_of(Chain(1, block_with_workspace));
  for (const auto& op : trace.regions[0].ops) {
    EXPECT_NEAR(static_cast<double>(op.workspace_bytes),
                op.name == "aten::_softmax" ? kTensor : 0,
                1 << 16)  // the kernel's own buffers
        << op.name;
  }
}

TEST(Trace, NamedRangesAreNoPartOfIt) {
  const Chain named(2, [](const at::Tensor& h, const std::vector<at::Tensor>& w) {
    const NamedRange range("workspace");
    return block_with_workspace(h, w);
  });
  const auto trace = trace_of(named);
  const auto expected = trace_of(Chain(2, block_with_workspace));
  ASSERT_EQ(trace.regions.size(), expected.regions.size());
  for (size_t i = 0; i < trace.regions.size(); ++i) {
    EXPECT_EQ(names_of(trace.regions[i]), names_of(expected.regions[i]));
    EXPECT_EQ(trace.regions[i].saved_bytes, expected.regions[i].saved_bytes);
  }
  EXPECT_NEAR(static_cast<double>(predict_peaks(trace, all_full(trace)).peak()),
              static_cast<double>(predict_peaks(expected, all_full(expected)).peak()),
              1 << 10);  // how malloc rounds depends on what was freed before
}

/// What a prediction says and a real step needs, for many decisions.
void expect_exact(const Chain& chain) {
  const auto trace = trace_of(chain);
  std::vector<std::pair<std::string, std::vector<RegionDecision>>> cases = {
      {"full", all_full(trace)}, {"plain", all_plain(trace)}};
  for (size_t k = 0; k < trace.regions[0].ops.size(); ++k) {
    const auto& one = trace.regions[0].ops[k];
    cases.emplace_back("keep " + one.name + " everywhere",
                       keeping(trace, [&](size_t, const auto& op) {
                         return op.name == one.name && op.call_index == one.call_index;
                       }));
  }
  cases.emplace_back("keep all", keeping(trace, [](size_t, const auto&) { return true; }));
  cases.emplace_back("keep in the first region",
                     keeping(trace, [](size_t region, const auto&) { return region == 0; }));
  auto mixed = keeping(trace, [](size_t region, const auto&) { return region == 1; });
  mixed[0] = {.name = mixed[0].name, .is_plain = true};
  cases.emplace_back("mixed", mixed);
  mixed.back() = {.name = mixed.back().name, .is_plain = true};
  cases.emplace_back("mixed, the last one plain", mixed);
  const size_t last = trace.regions.size() - 1;
  for (const bool is_plain : {false, true}) {
    const std::string inside = is_plain ? ", plain inside" : ", regions inside";
    cases.emplace_back("the first joined" + inside,
                       joining(all_full(trace), 0, last - 1, is_plain));
    cases.emplace_back("the last joined after plain ones" + inside,
                       joining(all_plain(trace), 1, last, is_plain));
  }
  for (const auto& [name, decisions] : cases) {
    chain.clear_gradients();
    const auto measured =
        measured_peak(chain.device, chain.parameters(), decisions, [&] { chain.step(); });
    const auto predicted = predict_peaks(trace, decisions).peak();
    EXPECT_NEAR(static_cast<double>(predicted) / kTensor,
                static_cast<double>(measured) / kTensor,
                static_cast<double>(kScalars) / kTensor)
        << name;
  }
  EXPECT_EQ(predict_peaks(trace, all_full(trace)).peak(), trace.peak);
  // Gradients that exist already are added to, which takes no other bytes.
  EXPECT_NEAR(static_cast<double>(measured_peak(
                  chain.device, chain.parameters(), all_full(trace), [&] { chain.step(); })),
              static_cast<double>(trace.peak),
              kScalars);
}

TEST(PredictedPeaks, EqualRealStepsOfResidualBlocks) {
  expect_exact(Chain(4));
}

TEST(PredictedPeaks, EqualRealStepsOnTheGpu) {
  REPRISE_REQUIRE_CUDA();
  expect_exact(Chain(4, residual_block, c10::kCUDA));
}

TEST(PredictedPeaks, EqualRealStepsOfBlocksThatEndInWhatTheySave) {
  expect_exact(Chain(3, [](const at::Tensor& h, const std::vector<at::Tensor>& w) {
    return torch::tanh(torch::mm(torch::sigmoid(torch::mm(h, w[0])), w[1]));
  }));
}

TEST(PredictedPeaks, EqualRealStepsThatWriteInPlace) {
  expect_exact(Chain(3, [](const at::Tensor& h, const std::vector<at::Tensor>& w) {
    auto y = torch::mm(h, w[0]).mul_(0.5);
    y = torch::gelu(y).add_(h);
    return torch::mm(torch::softmax(y, -1), w[1]).relu_();
  }));
}

TEST(PredictedPeaks, EqualRealStepsOfDeepBlocks) {
  expect_exact(Chain(3, [](const at::Tensor& h, const std::vector<at::Tensor>& w) {
    auto y = torch::mm(h, w[0]);
    auto gate = torch::silu(y);
    auto z = torch::layer_norm(gate * y, {kSide});
    return h + torch::dropout(torch::mm(z.exp().tanh(), w[1]), 0.2, true);
  }));
}

TEST(PredictedPeaks, EqualRealStepsOfOperatorsWithWorkspace) {
  expect_exact(Chain(3, block_with_workspace));
}

TEST(PredictedPeaks, EqualRealStepsOfRegionsInRegions) {
  expect_exact(Chain(3, [](const at::Tensor& h, const std::vector<at::Tensor>& w) {
    const auto inner = [w](const at::Tensor& y) { return torch::mm(y, w[0]).tanh().sigmoid(); };
    auto y = checkpoint(CheckpointOptions{.name = "inner"}, inner, torch::mm(h, w[1]).tanh());
    return h + y.exp();
  }));
}

/// Eight times as much inside as the others hold, so that the peak of a step is where it stands.
at::Tensor wide_block(const at::Tensor& h, const std::vector<at::Tensor>& w) {
  auto y = torch::mm(h, w[0]);
  std::vector<at::Tensor> parts(8, y);
  y = torch::cat(parts, 1);
  y = y.tanh();
  y = y.sigmoid();
  y = y.exp();
  return h + torch::mm(y.narrow(1, 0, kSide), w[1]);
}

TEST(PredictedPeaks, EqualRealStepsWhereverTheLargestBlockStands) {
  for (size_t i = 0; i < 3; ++i) {
    std::vector<Block> blocks(3, residual_block);
    blocks[i] = wide_block;
    expect_exact(Chain(blocks));
  }
}

TEST(PredictedPeaks, EqualRealStepsOfTheZoo) {
  for (const auto& entry : zoo()) {
    torch::manual_seed(7);
    const auto model = entry.make();
    const auto x = model->input();
    const auto step = [&] { model->loss(x, with({.name = "region"})).backward(); };
    const auto trace = trace_step(step, c10::kCPU);
    const std::vector<std::vector<RegionDecision>> cases = {
        all_full(trace), all_plain(trace), keeping(trace, [](size_t, const auto&) {
          return true;
        })};
    for (size_t i = 0; i < cases.size(); ++i) {
      model->zero_grad(/*set_to_none=*/true);
      const auto measured = measured_peak(c10::kCPU, model->parameters(), cases[i], step);
      const auto predicted = predict_peaks(trace, cases[i]).peak();
      // The tensors are small, and malloc rounds equal requests differently.
      EXPECT_NEAR(static_cast<double>(predicted),
                  static_cast<double>(measured),
                  256 + 0.05 * static_cast<double>(measured))
          << entry.name << ", case " << i;
    }
  }
}

struct Peaks {
  int64_t forward = 0;  // of the blocks
  int64_t step = 0;
};

Peaks measured_peaks(const Chain& chain, const std::vector<RegionDecision>& decisions) {
  chain.clear_gradients();
  planning::ActivationMeter meter(chain.device, chain.parameters());
  Peaks peaks;
  run_planned(decisions, [&] { chain.step([&] { peaks.forward = meter.peak(); }); });
  peaks.step = meter.peak();
  return peaks;
}

void expect_near(const planning::StepPeaks& predicted, const Peaks& measured, int64_t tolerance) {
  const int64_t forward = std::max(
      predicted.before, *std::max_element(predicted.forward.begin(), predicted.forward.end()));
  EXPECT_NEAR(static_cast<double>(forward) / kTensor,
              static_cast<double>(measured.forward) / kTensor,
              static_cast<double>(tolerance) / kTensor);
  EXPECT_NEAR(static_cast<double>(predicted.peak()) / kTensor,
              static_cast<double>(measured.step) / kTensor,
              static_cast<double>(tolerance) / kTensor);
}

/// What a prediction says and a real step needs, on the device and on its host.
void expect_exact_with_host(const Chain& chain,
                            const StepTrace& trace,
                            std::vector<RegionDecision> decisions,
                            const std::string& name) {
  for (const bool offloads_inputs : {false, true}) {
    if (offloads_inputs) {
      offload_inputs(trace, decisions);
    }
    trim_offload_memory();
    SCOPED_TRACE(name + (offloads_inputs ? " and inputs" : ""));
    const auto predicted = predict_peaks(trace, decisions);
    expect_near(predicted, measured_peaks(chain, decisions), kScalars);
    EXPECT_EQ(predicted.host, offload_use().host_bytes_peak);
  }
}

void expect_exact_with_host(const Chain& chain) {
  const auto trace = trace_of(chain);
  const auto all = deciding(trace, [](size_t, const auto&) { return Decision::Offload; });
  expect_exact_with_host(chain, trace, all, "all");
  expect_exact_with_host(chain,
                         trace,
                         deciding(trace,
                                  [](size_t region, const auto& op) {
                                    return region % 2 == 0 && op.is_saved ? Decision::Offload
                                                                          : Decision::Recompute;
                                  }),
                         "what is saved, in every other region");
  auto mixed = all;
  mixed[1] = {.name = mixed[1].name, .is_plain = true};
  mixed[0] = keeping(trace, [](size_t, const auto&) { return true; })[0];
  expect_exact_with_host(chain, trace, mixed, "the first region keeps, the second is plain");
  mixed = all;
  mixed.back() = {.name = mixed.back().name, .is_plain = true};
  expect_exact_with_host(chain, trace, mixed, "the last region plain");
}

TEST(PredictedPeaks, EqualRealStepsThatOffload) {
  const BackendScope backend(std::make_shared<CloneBackend>(kSmallestMovedBytes, /*is_lazy=*/true));
  expect_exact_with_host(Chain(4));
  expect_exact_with_host(Chain(3, [](const at::Tensor& h, const std::vector<at::Tensor>& w) {
    return torch::tanh(torch::mm(torch::sigmoid(torch::mm(h, w[0])), w[1]));
  }));
  expect_exact_with_host(Chain(3, [](const at::Tensor& h, const std::vector<at::Tensor>& w) {
    auto y = torch::mm(h, w[0]).mul_(0.5);
    y = torch::gelu(y).add_(h);
    return torch::mm(torch::softmax(y, -1), w[1]).relu_();
  }));
}

TEST(PredictedPeaks, FollowHowManyRegionsAheadAreFetched) {
  const BackendScope backend(std::make_shared<CloneBackend>(kSmallestMovedBytes, /*is_lazy=*/true));
  const Chain chain(4);
  for (const size_t prefetch : {0, 2}) {
    set_offload_settings({.prefetch = prefetch});
    const auto trace = trace_of(chain);
    const auto all = deciding(trace, [](size_t, const auto&) { return Decision::Offload; });
    expect_exact_with_host(chain, trace, all, "prefetch " + std::to_string(prefetch));
  }
}

TEST(PredictedPeaks, EqualRealStepsThatOffloadOnTheGpu) {
  REPRISE_REQUIRE_CUDA();
  expect_exact_with_host(Chain(4, residual_block, c10::kCUDA));
}

TEST(PredictedPeaks, EqualRealStepsThatCompress) {
  const Chain chain(3, [](const at::Tensor& h, const std::vector<at::Tensor>& w) {
    auto y = torch::dropout(torch::tanh(torch::mm(h, w[0])), 0.2, true);
    return h + torch::mm(y, w[1]);
  });
  const auto trace = trace_of(chain);
  for (const bool is_lossy : {false, true}) {
    for (const auto& one : trace.regions[0].ops) {
      const bool has_mask = one.name.find("dropout") != std::string::npos;
      if (!one.can_keep || (!is_lossy && !has_mask)) {
        continue;
      }
      auto decisions = deciding(trace, [&](size_t, const auto& op) {
        return op.name == one.name && op.call_index == one.call_index ? Decision::Compress
                                                                      : Decision::Recompute;
      });
      for (auto& decision : decisions) {
        decision.allow_lossy = is_lossy;
      }
      SCOPED_TRACE(one.name + (is_lossy ? ", lossy" : ""));
      const auto measured = measured_peaks(chain, decisions);
      expect_near(predict_peaks(trace, decisions), measured, measured.step / 200);
    }
  }
}

/// Gradients included, a step's bytes are all that is alive beyond its start.
TEST(PredictedPeaks, CountGradientsThatComeIntoBeing) {
  const Chain chain(3);
  const auto trace = trace_of(chain);
  for (const auto& decisions : {all_full(trace), all_plain(trace)}) {
    chain.clear_gradients();
    const PeakTracker tracker(chain.device);
    run_planned(decisions, [&] { chain.step(); });
    EXPECT_NEAR(static_cast<double>(
                    predict_peaks(trace, decisions, planning::Counted::WithGradients).peak()),
                static_cast<double>(tracker.extra()),
                kScalars);
  }
  // Those that exist are not the step's.
  const auto again = trace_of(chain);
  EXPECT_EQ(again.intervals.back().gradient_bytes, 0);
  EXPECT_NEAR(static_cast<double>(trace.intervals.back().gradient_bytes), 6 * kTensor, kScalars);
}

TEST(PredictedPeaks, EqualRealStepsOfTheZooThatOffload) {
  const BackendScope backend(std::make_shared<CloneBackend>(1, /*is_lazy=*/false));
  for (const auto& entry : zoo()) {
    torch::manual_seed(7);
    const auto model = entry.make();
    const auto x = model->input();
    const auto step = [&] { model->loss(x, with({.name = "region"})).backward(); };
    const auto trace = trace_step(step, c10::kCPU);
    auto decisions = deciding(trace, [](size_t, const auto&) { return Decision::Offload; });
    offload_inputs(trace, decisions);
    trim_offload_memory();
    const auto measured = measured_peak(c10::kCPU, model->parameters(), decisions, step);
    const auto predicted = predict_peaks(trace, decisions);
    EXPECT_NEAR(static_cast<double>(predicted.peak()),
                static_cast<double>(measured),
                256 + 0.05 * static_cast<double>(measured))
        << entry.name;
    EXPECT_EQ(predicted.host, offload_use().host_bytes_peak) << entry.name;
  }
}

/// The sums by which a solver adds up regions, at every point of the step.
void expect_additive(const StepTrace& trace, const std::vector<RegionDecision>& decisions) {
  const auto step = predict_peaks(trace, decisions);
  const auto full = predict_peaks(trace, all_full(trace));
  int64_t held = 0;
  for (size_t i = 0; i < decisions.size(); ++i) {
    const auto region = planning::region_peaks(trace, i, decisions[i]);
    const int64_t below = trace.regions[i].entry_bytes + held;
    EXPECT_EQ(step.forward[i], below + region.forward) << i;
    EXPECT_EQ(std::max(step.recompute[i], step.backward[i]), below + region.backward) << i;
    held += region.held;
  }
  EXPECT_EQ(step.head, full.head + held);
  EXPECT_EQ(full.head, trace.head_bytes + trace.head_peak);
  EXPECT_EQ(step.before, trace.before_peak);
}

TEST(PredictedPeaks, AddUpFromRegions) {
  std::vector<Block> blocks(4, residual_block);
  blocks[1] = wide_block;
  const auto trace = trace_of(Chain(blocks));
  expect_additive(trace, all_full(trace));
  expect_additive(trace, all_plain(trace));
  expect_additive(trace, keeping(trace, [](size_t, const auto&) { return true; }));
  auto mixed = keeping(trace, [](size_t region, const auto& op) {
    return region % 2 == 1 && op.name == "aten::mm";
  });
  mixed[2] = {.name = mixed[2].name, .is_plain = true};
  expect_additive(trace, mixed);
}

TEST(PredictedPeaks, KnowWhatARegionHolds) {
  const auto trace = trace_of(Chain(2));
  const auto all = keeping(trace, [](size_t, const auto&) { return true; });
  for (size_t i = 0; i < 2; ++i) {
    const auto held = [&](const RegionDecision& decision) {
      return planning::region_peaks(trace, i, decision).held;
    };
    EXPECT_EQ(held({.name = all[i].name}), 0);
    EXPECT_EQ(held({.name = all[i].name, .is_plain = true}), kTensor);
    // Two products and tanh; the sum is held by whoever gets it.
    EXPECT_EQ(held(all[i]), 3 * kTensor);
  }
}

TEST(ActivationMeter, CountsAGradientUntilItIsInPlace) {
  auto weight = torch::randn({kSide, kSide}).requires_grad_();
  const auto step = [&] { (weight * 2).sum().backward(); };
  for (const bool accumulates : {false, true}) {
    planning::ActivationMeter meter(c10::kCPU, {weight});
    step();
    // The product, a temporary of the statement, and the gradient before it is in place.
    EXPECT_NEAR(static_cast<double>(meter.peak()), 2 * kTensor, kScalars) << accumulates;
    EXPECT_NEAR(static_cast<double>(meter.now()), 0, kScalars) << accumulates;
  }
}

TEST(ActivationMeter, HoldsItsLimitInsideTheStep) {
  const Chain chain(3);
  const auto parameters = chain.parameters();
  int64_t peak = 0;
  {
    const planning::ActivationMeter meter(c10::kCPU, parameters);
    chain.step();
    peak = meter.peak();
  }
  chain.clear_gradients();
  {
    const planning::ActivationMeter meter(c10::kCPU, parameters, peak + kScalars);
    EXPECT_NO_THROW(chain.step());
  }
  chain.clear_gradients();
  const planning::ActivationMeter meter(c10::kCPU, parameters, peak - kTensor);
  EXPECT_THROW(chain.step(), c10::OutOfMemoryError);
}

StepTrace trace_of_rows(int64_t rows) {
  Chain chain(3);
  chain.x = torch::randn({rows, kSide});
  return trace_of(chain);
}

/// Sizes are linear in the rows; a peak is the largest of several such sums, and below the chord.
TEST(TraceBetween, IsTheTraceOfAStepBetween) {
  const auto between = planning::trace_between(trace_of_rows(256), trace_of_rows(1024), 1.0 / 3);
  ASSERT_TRUE(between.has_value());
  const auto real = trace_of_rows(512);
  for (const bool is_plain : {false, true}) {
    const auto predicted =
        predict_peaks(*between, is_plain ? all_plain(*between) : all_full(*between)).peak();
    const auto expected = predict_peaks(real, is_plain ? all_plain(real) : all_full(real)).peak();
    EXPECT_GE(predicted, expected - kScalars);
    EXPECT_NEAR(static_cast<double>(predicted),
                static_cast<double>(expected),
                0.06 * static_cast<double>(expected));
  }
}

TEST(TraceBetween, IsNothingBetweenDifferentSteps) {
  EXPECT_FALSE(planning::trace_between(trace_of(Chain(2)), trace_of(Chain(3)), 0.5).has_value());
  EXPECT_FALSE(
      planning::trace_between(trace_of(Chain(2)), trace_of(Chain(2, wide_block)), 0.5).has_value());
}

}  // namespace
}  // namespace reprise::testing
