// Budgets on real models: the bound holds, the prediction is exact, bytes buy time, and no budget
// changes a bit of loss or gradients.
#include "plan/measure/activation_meter.h"
#include "plan/run_planned.h"
#include "plan/steady_times.h"
#include "plan/step_planner.h"
#include "plan/widened_config.h"
#include "support/bitwise.h"
#include "support/clone_backend.h"
#include "support/tensors.h"

#include <reprise/io/json.h>
#include <reprise/loss/head.h>
#include <reprise/loss/next_token.h>
#include <reprise/memory.h>
#include <reprise/model/block_checkpointing.h>
#include <reprise/model/lora.h>
#include <reprise/model/model.h>
#include <reprise/offload.h>
#include <reprise/plan.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

constexpr int64_t kBudgets = 12;

std::shared_ptr<Model> model_of(const std::string& family,
                                bool has_lora,
                                int64_t layers,
                                int64_t vocabulary) {
  torch::manual_seed(5);
  auto model = std::make_shared<Model>(
      widened_config(
          family,
          {.width = 64, .inner = 160, .layers = layers, .positions = 64, .vocabulary = vocabulary}),
      HeadKind::CausalLm,
      at::TensorOptions(at::kFloat));
  {
    const torch::NoGradGuard no_grad;
    for (auto& parameter : model->parameters()) {
      if (parameter.dim() == 1) {
        parameter.fill_(1);
      } else {
        parameter.normal_(0, 0.1);
      }
    }
  }
  if (has_lora) {
    LoraConfig config;
    config.rank = 4;
    add_lora(*model, config, /*seed=*/3);
  }
  model->train();
  model->enable_checkpointing(BlockChoice::all());
  return model;
}

struct TrainedModel {
  static constexpr int64_t kRows = 4, kLength = 48, kVocabulary = 256;

  TrainedModel(const std::string& family, bool has_lora, int64_t layers = 5) {
    track_cpu_memory();
    model = model_of(family, has_lora, layers, kVocabulary);
    input.input_ids = torch::randint(kVocabulary, {kRows, kLength}, at::kLong);
    targets = at::constant_pad_nd(input.input_ids.slice(1, 1), {0, 1}, kIgnoredLabel);
    for (const auto& [name, parameter] : trained_parameters(*model)) {
      parameters.push_back(parameter);
    }
  }

  /// Of its own, so that backward finds no other owner of the hidden states.
  at::Tensor mean_loss() {
    const auto values =
        linear_cross_entropy(model->hidden_states(input), model->linear_head(), targets);
    return values.sum / static_cast<double>(values.tokens);
  }

  void step() {
    const auto mean = mean_loss();
    mean.backward();
    loss = mean.detach();
  }

  /// Loss and gradients, which are dropped then.
  std::vector<at::Tensor> taken() {
    std::vector<at::Tensor> values{loss};
    for (auto& parameter : parameters) {
      values.push_back(std::exchange(parameter.mutable_grad(), {}));
    }
    return values;
  }

  planning::StepTrace traced() {
    return with_steady_times(planning::trace_step([this] { step(); }, at::kCPU));
  }

  int64_t measured(const std::vector<RegionDecision>& decisions) {
    planning::ActivationMeter meter(at::kCPU, parameters);
    run_planned(decisions, [this] { step(); });
    return meter.peak();
  }

  std::shared_ptr<Model> model;
  ModelInput input;
  at::Tensor targets, loss;
  std::vector<at::Tensor> parameters;
};

struct Budgets : TrainedModel, ::testing::TestWithParam<std::pair<std::string, bool>> {
  Budgets() : TrainedModel(GetParam().first, GetParam().second) {}
};

TEST_P(Budgets, AreHeldAndChangeNoBits) {
  model->disable_checkpointing();
  step();
  const auto expected = taken();
  model->enable_checkpointing(BlockChoice::all());

  const auto trace = traced();
  const planning::StepPlanner planner(trace);
  ASSERT_LT(planner.least_bytes(), planner.most_bytes());
  EXPECT_LE(planner.least_bytes(), trace.peak) << "computing everything again is a plan, too";
  EXPECT_TRUE(planner.plan_for(planner.most_bytes()).is_plain());
  EXPECT_EQ(planner.curve().back().extra_ms, 0);

  std::vector<double> used;
  double slower = std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < kBudgets; ++i) {
    const int64_t budget =
        planner.least_bytes() + (planner.most_bytes() - planner.least_bytes()) * i / (kBudgets - 1);
    const planning::StepPlan& plan = planner.plan_for(budget);
    EXPECT_LE(plan.extra_ms, slower) << "more bytes, more time";
    slower = plan.extra_ms;
    const int64_t peak = measured(plan.decisions);
    expect_bitwise_equal(taken(), expected);
    // Malloc rounds the small ones.
    EXPECT_LE(peak, budget + budget / 100) << "budget " << i;
    EXPECT_NEAR(static_cast<double>(peak),
                static_cast<double>(plan.peak_bytes),
                0.03 * static_cast<double>(plan.peak_bytes))
        << "budget " << i;
    used.push_back(static_cast<double>(peak) / static_cast<double>(budget));
  }
  std::sort(used.begin(), used.end());
  EXPECT_GE(used[used.size() / 2], 0.9) << "bytes that the plans leave unused";
}

TEST_P(Budgets, BelowTheLeastAreRefusedWithTheLeast) {
  const planning::StepPlanner planner(traced());
  const auto message = message_of<c10::Error>([&] { planner.plan_for(planner.least_bytes() - 1); });
  EXPECT_TRUE(contains(message, std::to_string(planner.least_bytes()))) << message;
}

// Below what one region per block takes, blocks are joined.
TEST(DeepModel, JoinsBlocksBelowTheLeastOfOneRegionPerBlock) {
  TrainedModel trained("llama", /*has_lora=*/false, /*layers=*/12);
  const auto trace = trained.traced();
  EXPECT_EQ(trace.regions.front().joinable, 11U);
  EXPECT_EQ(trace.regions.back().joinable, 0U);
  trained.step();
  const auto expected = trained.taken();

  const planning::StepPlanner alone(trace, {.longest_segment = 1});
  const planning::StepPlanner planner(trace);
  EXPECT_LT(planner.least_bytes(), alone.least_bytes() * 9 / 10);
  EXPECT_EQ(planner.most_bytes(), alone.most_bytes());
  for (const planning::StepPlan& plan : alone.curve()) {
    EXPECT_LE(planner.plan_for(plan.peak_bytes).extra_ms, plan.extra_ms);
  }
  for (int64_t i = 0; i < kBudgets; ++i) {
    const int64_t budget =
        planner.least_bytes() + (alone.least_bytes() - planner.least_bytes()) * i / kBudgets;
    const planning::StepPlan& plan = planner.plan_for(budget);
    EXPECT_TRUE(std::any_of(plan.decisions.begin(),
                            plan.decisions.end(),
                            [](const auto& region) { return region.joined > 0; }))
        << "budget " << i;
    const int64_t peak = trained.measured(plan.decisions);
    expect_bitwise_equal(trained.taken(), expected);
    EXPECT_LE(peak, budget + budget / 100) << "budget " << i;
    EXPECT_NEAR(static_cast<double>(peak),
                static_cast<double>(plan.peak_bytes),
                0.03 * static_cast<double>(plan.peak_bytes))
        << "budget " << i;
  }

  const int64_t budget = (planner.least_bytes() + alone.least_bytes()) / 2;
  const auto public_plan = plan([&] { trained.step(); }, at::kCPU, {.budget = budget});
  EXPECT_TRUE(contains(public_plan.describe(), ": joined in one region")) << public_plan.describe();
  const PlanGuard use(public_plan);
  trained.step();
  use.finish();
  expect_bitwise_equal(trained.taken(), expected);
}

/// Plans that offload, compress, or count gradients.
struct WiderBudgets : Budgets {
  WiderBudgets() { set_offload_settings({}); }

  /// Runs `count` plans of the curve, from the least bytes to the most.
  static void for_each_plan(const planning::StepPlanner& planner,
                            size_t count,
                            const std::function<void(const planning::StepPlan&)>& use) {
    const auto& curve = planner.curve();
    for (size_t i = 0; i < count; ++i) {
      use(curve[(curve.size() - 1) * i / (count - 1)]);
    }
  }

  static void expect_close(int64_t measured, int64_t predicted) {
    EXPECT_NEAR(static_cast<double>(measured),
                static_cast<double>(predicted),
                0.03 * static_cast<double>(predicted));
  }

  static planning::DeviceSpeeds fast() {
    return {.link = {.out_bytes_per_second = 1e12, .in_bytes_per_second = 1e12}};
  }

  const BackendScope backend{std::make_shared<CloneBackend>(4096, /*is_lazy=*/true)};
};

TEST_P(WiderBudgets, OffloadWithinTheHostLimitAndChangeNoBits) {
  const auto trace = traced();
  step();
  const auto expected = taken();
  const planning::StepPlanner without(trace);
  int64_t most_host = int64_t{1} << 30;
  for (const bool is_limited : {false, true}) {
    const int64_t host = is_limited ? most_host / 3 : most_host;
    const planning::StepPlanner planner(trace, {.host_bytes = host, .speeds = fast()});
    EXPECT_LT(planner.least_bytes(), without.least_bytes());
    for (const auto& plan : without.curve()) {
      EXPECT_LE(planner.plan_for(plan.peak_bytes).extra_ms, plan.extra_ms);
    }
    most_host = 0;
    double slower = std::numeric_limits<double>::infinity();
    for_each_plan(planner, 8, [&](const planning::StepPlan& plan) {
      EXPECT_LE(plan.extra_ms, slower);
      slower = plan.extra_ms;
      trim_offload_memory();
      const int64_t peak = measured(plan.decisions);
      expect_bitwise_equal(taken(), expected);
      // What is moved is counted as long as it may be there, so a prediction may be above.
      EXPECT_LE(peak, plan.peak_bytes + plan.peak_bytes / 100);
      EXPECT_GE(peak, plan.peak_bytes - plan.peak_bytes / 16);
      EXPECT_EQ(offload_use().host_bytes_peak, plan.host_bytes);
      EXPECT_LE(plan.host_bytes, host);
      most_host = std::max(most_host, plan.host_bytes);
    });
    EXPECT_GT(most_host, 0);
  }
}

TEST_P(WiderBudgets, LoseBitsOnlyWhereThatIsAllowed) {
  const auto trace = traced();
  step();
  const auto expected = taken();
  const auto is_lossy = [](const planning::StepPlan& plan) { return plan.is_lossy(); };
  const planning::StepPlanner exact(trace);
  EXPECT_TRUE(std::none_of(exact.curve().begin(), exact.curve().end(), is_lossy));
  const planning::StepPlanner planner(trace, {.allow_lossy = true, .speeds = fast()});
  const auto plan = std::find_if(planner.curve().begin(), planner.curve().end(), is_lossy);
  ASSERT_NE(plan, planner.curve().end());
  expect_close(measured(plan->decisions), plan->peak_bytes);
  const auto values = taken();
  EXPECT_TRUE(bitwise_equal(values[0], expected[0])) << "forward goes on with exact values";
  size_t changed = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    EXPECT_TRUE(torch::allclose(values[i], expected[i], /*rtol=*/0.1, /*atol=*/1e-3));
    changed += bitwise_equal(values[i], expected[i]) ? 0 : 1;
  }
  // With frozen weights a rounded result may feed no gradient.
  EXPECT_TRUE(changed > 0 || GetParam().second) << "nothing was rounded: the test shows nothing";
}

TEST_P(WiderBudgets, CountGradientsWhereAsked) {
  const auto trace = traced();
  const planning::StepPlanner planner(trace, {.counts_gradients = true});
  const bool has_small_gradients = GetParam().second;
  EXPECT_TRUE(has_small_gradients ||
              planner.most_bytes() > planning::StepPlanner(trace).most_bytes());
  for_each_plan(planner, 6, [&](const planning::StepPlan& plan) {
    const PeakTracker tracker(at::kCPU);
    run_planned(plan.decisions, [this] { step(); });
    expect_close(tracker.extra(), plan.peak_bytes);
    taken();
  });
}

TEST_P(WiderBudgets, RefuseHostMemoryThatHelpsNobody) {
  const auto trace = traced();
  const auto refusal = [](const planning::StepTrace& of, int64_t host) {
    return message_of<c10::Error>([&] { planning::StepPlanner(of, {.host_bytes = host}); });
  };
  EXPECT_TRUE(contains(refusal(trace, 1000), "pages of 65536 bytes"));
  detail::set_offload_backend(nullptr);
  EXPECT_TRUE(contains(refusal(traced(), int64_t{1} << 30), "in host memory already"));
}

INSTANTIATE_TEST_SUITE_P(Families,
                         WiderBudgets,
                         ::testing::Values(std::pair("llama", false), std::pair("gpt2", true)),
                         [](const auto& family) {
                           return family.param.first + (family.param.second ? "_lora" : "");
                         });

INSTANTIATE_TEST_SUITE_P(Families,
                         Budgets,
                         ::testing::Values(std::pair("llama", false),
                                           std::pair("llama", true),
                                           std::pair("qwen2", false),
                                           std::pair("qwen2", true),
                                           std::pair("gpt2", false),
                                           std::pair("gpt2", true),
                                           std::pair("gpt_neox", false),
                                           std::pair("gpt_neox", true),
                                           std::pair("gemma2", false),
                                           std::pair("gemma2", true),
                                           std::pair("phi3", true),
                                           std::pair("phi", false),
                                           std::pair("bloom", false),
                                           std::pair("opt_post_norm", false),
                                           std::pair("stablelm_parallel", true)),
                         [](const auto& family) {
                           return family.param.first + (family.param.second ? "_lora" : "");
                         });

}  // namespace
}  // namespace reprise::testing
