// Traces without weights and device against traces of real steps on the CPU: the same operators,
// the same bytes, the same budgets.
#include "plan/trace/meta_trace.h"
#include "plan/cost/trace_peaks.h"
#include "plan/measure/op_timer.h"
#include "plan/region_names.h"
#include "plan/step_planner.h"
#include "plan/widened_config.h"
#include "support/bitwise.h"
#include "support/devices.h"

#include <reprise/autocast.h>
#include <reprise/io/json.h>
#include <reprise/loss/head.h>
#include <reprise/loss/next_token.h>
#include <reprise/memory.h>
#include <reprise/model/attention_kernels.h>
#include <reprise/model/lora.h>
#include <reprise/model/model.h>
#include <reprise/ops/cuda_kernels.h>
#include <reprise/train/model_plan.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

DeviceProfile some_cpu() {
  DeviceProfile profile;
  profile.name = "cpu";
  profile.type = c10::kCPU;
  profile.half_flops = profile.float_flops = 1e11;
  profile.memory_speed = 1e10;
  profile.launch_ns = 1000;
  profile.memory_bytes = int64_t{1} << 28;
  return profile;
}

ModelConfig config_of(const std::string& family) {
  return widened_config(
      family, {.width = 128, .inner = 320, .layers = 4, .positions = 96, .vocabulary = 320});
}

/// A step of next-token training, on whichever device.
struct NextTokenStep {
  static constexpr int64_t kRows = 4, kLength = 96;

  NextTokenStep(const std::string& family,
                bool has_lora,
                c10::DeviceType device,
                at::ScalarType type = at::kFloat,
                double lora_dropout = 0)
      : model(std::make_shared<Model>(
            config_of(family), HeadKind::CausalLm, at::device(device).dtype(type))) {
    if (has_lora) {
      LoraConfig config;
      config.rank = 4;
      config.dropout = lora_dropout;
      add_lora(*model, config, /*seed=*/3);
    }
    model->train();
    model->enable_checkpointing();
    input.input_ids = at::zeros({kRows, kLength}, at::device(device).dtype(at::kLong));
  }

  void operator()() const { loss().backward(); }

  at::Tensor loss() const {
    const AutocastScope scope(c10::kCPU, at::kBFloat16, has_autocast);
    const auto targets = at::constant_pad_nd(input.input_ids.slice(1, 1), {0, 1}, kIgnoredLabel);
    const Targets known(targets, TargetSummary{.count = kRows * (kLength - 1)});
    const auto values =
        linear_cross_entropy(model->hidden_states(input), model->linear_head(), known);
    return values.sum / static_cast<double>(values.tokens);
  }

  bool has_autocast = false;
  std::shared_ptr<Model> model;
  ModelInput input;
};

double share(int64_t a, int64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

/// That two traces are of the same operators and bytes; what regions leave behind to `outputs`.
void expect_same(const planning::StepTrace& meta,
                 const planning::StepTrace& real,
                 double outputs = 0.01) {
  ASSERT_EQ(meta.regions.size(), real.regions.size());
  EXPECT_EQ(meta.kinds.size(), real.kinds.size());
  constexpr int64_t kMalloc = 4096 + 64;  // rounds equal requests differently, up to a page
  for (size_t i = 0; i < real.regions.size(); ++i) {
    const auto &expected = real.regions[i], &found = meta.regions[i];
    EXPECT_EQ(found.name, expected.name);
    ASSERT_EQ(names_of(found), names_of(expected)) << expected.name;
    EXPECT_EQ(found.rerun_ops, expected.rerun_ops);
    for (size_t k = 0; k < expected.ops.size(); ++k) {
      const auto &a = expected.ops[k], &b = found.ops[k];
      EXPECT_EQ(b.call_index, a.call_index) << a.name;
      EXPECT_NEAR(static_cast<double>(b.bytes), static_cast<double>(a.bytes), kMalloc) << a.name;
      EXPECT_EQ(b.is_saved, a.is_saved) << a.name;
      EXPECT_EQ(b.can_keep, a.can_keep) << a.name;
      EXPECT_EQ(b.is_rerun, a.is_rerun) << a.name;
      EXPECT_TRUE(b.forward_ms > 0 || b.bytes == 0 || a.name == "aten::empty") << a.name;
    }
    EXPECT_NEAR(share(found.saved_bytes, expected.saved_bytes), 1, 0.01) << expected.name;
    EXPECT_NEAR(share(found.output_bytes, expected.output_bytes), 1, outputs) << expected.name;
  }
  EXPECT_NEAR(share(meta.peak, real.peak), 1, 0.03) << meta.peak << " against " << real.peak;

  // Which plans there are depends on times; what each of them takes does not.
  const planning::StepPlanner planner(real);
  for (const auto& plan : planner.curve()) {
    const int64_t found = planning::predict_peaks(meta, plan.decisions).peak();
    EXPECT_NEAR(share(found, plan.peak_bytes), 1, 0.03) << plan.extra_ms << " ms";
  }
  EXPECT_NEAR(share(planning::StepPlanner(meta).most_bytes(), planner.most_bytes()), 1, 0.03);
}

struct MetaTraces : ::testing::TestWithParam<std::pair<std::string, bool>> {};

TEST_P(MetaTraces, AreThoseOfRealSteps) {
  track_cpu_memory();
  const auto [family, has_lora] = GetParam();
  const NextTokenStep step(family, has_lora, c10::kCPU);
  const auto real = planning::trace_step(step, c10::kCPU);
  const DeviceProfile cpu = some_cpu();
  const planning::MetaScope scope(cpu);
  const NextTokenStep planned(family, has_lora, c10::kMeta);
  expect_same(planning::predict_step(planned, cpu).trace, real);
}

TEST(MetaTrace, FollowsTheVariantsOfLora) {
  track_cpu_memory();
  LoraConfig dora, pissa;
  dora.rank = pissa.rank = 4;
  dora.use_dora = true;
  pissa.init = LoraInit::parse("pissa");
  for (const auto& config : {dora, pissa}) {
    const auto adapted = [&](c10::DeviceType device) {
      NextTokenStep step("llama", /*has_lora=*/false, device);
      const torch::NoGradGuard no_grad;
      for (auto& parameter : step.model->parameters()) {
        parameter.normal_(0, 0.1);  // to be decomposed
      }
      add_lora(*step.model, config, /*seed=*/3);
      return step;
    };
    const auto real = planning::trace_step(adapted(c10::kCPU), c10::kCPU);
    const DeviceProfile cpu = some_cpu();
    const planning::MetaScope scope(cpu);
    expect_same(planning::predict_step(adapted(c10::kMeta), cpu).trace, real);
  }
}

TEST(MetaTrace, FollowsTheDropoutOfAdapters) {
  track_cpu_memory();
  constexpr double kDropout = 0.1;
  const NextTokenStep step("llama", /*has_lora=*/true, c10::kCPU, at::kBFloat16, kDropout);
  const auto real = planning::trace_step(step, c10::kCPU);
  const DeviceProfile cpu = some_cpu();
  const planning::MetaScope scope(cpu);
  const NextTokenStep planned("llama", /*has_lora=*/true, c10::kMeta, at::kBFloat16, kDropout);
  expect_same(planning::predict_step(planned, cpu).trace, real);
}

TEST(MetaTrace, FollowsAutocast) {
  track_cpu_memory();
  NextTokenStep step("llama", /*has_lora=*/true, c10::kCPU);
  step.has_autocast = true;
  const auto real = planning::trace_step(step, c10::kCPU);
  const DeviceProfile cpu = some_cpu();
  const planning::MetaScope scope(cpu);
  NextTokenStep planned("llama", /*has_lora=*/true, c10::kMeta);
  planned.has_autocast = true;
  // Autocast's cache keeps converted adapters to the end of forward.
  expect_same(planning::predict_step(planned, cpu).trace, real, /*outputs=*/0.06);
}

TEST(MetaTrace, IsThatOfARealStepOnTheGpu) {
  REPRISE_REQUIRE_CUDA();
  if (!load_cuda_kernels()) {
    GTEST_SKIP() << missing_cuda_kernels();
  }
  choose_kernels({});
  for (const bool has_lora : {false, true}) {
    const NextTokenStep step("llama", has_lora, c10::kCUDA, at::kBFloat16);
    const auto real = planning::trace_step(step, c10::Device(c10::kCUDA, 0));
    auto gpu = device_profile("h200");
    gpu.generation = gpu_generation();
    const planning::MetaScope scope(gpu);
    const NextTokenStep planned("llama", has_lora, c10::kMeta, at::kBFloat16);
    expect_same(planning::predict_step(planned, gpu).trace, real);
  }
}

TEST(MetaTrace, TakesTheKernelsOfTheGpuThatIsPlannedFor) {
  const auto h200 = device_profile("h200");
  const planning::MetaScope scope(h200);
  const NextTokenStep step("llama", /*has_lora=*/false, c10::kMeta, at::kBFloat16);
  const auto trace = planning::predict_step(step, h200).trace;
  ASSERT_FALSE(trace.regions.empty());
  for (const auto& op : trace.regions[1].ops) {
    EXPECT_EQ(op.bytes % 512, 0) << op.name;
    // Our kernels need little but what they return, and a product's workspace.
    EXPECT_TRUE(op.workspace_bytes == 0 || op.workspace_bytes >> 20 == 32) << op.name;
    EXPECT_EQ(op.name.find("softmax"), std::string::npos) << "attention by scores of T x T";
  }
  const auto names = names_of(trace.regions[1]);
  EXPECT_NE(std::find_if(names.begin(),
                         names.end(),
                         [](const auto& name) {
                           return name == "aten::_scaled_dot_product_flash_attention" ||
                                  name == "aten::_scaled_dot_product_cudnn_attention";
                         }),
            names.end());
}

TEST(OpTimer, TimesProductsByArithmeticAndOthersByMemory) {
  const DeviceProfile cpu = some_cpu();
  const planning::MetaScope scope(cpu);
  const auto options = at::device(c10::kMeta).dtype(at::kFloat);
  const auto a = at::empty({1000, 2000}, options), b = at::empty({2000, 3000}, options);
  planning::OpTimer timer(cpu);
  const auto c = at::mm(a, b);
  constexpr double kLaunch = 1e-3;
  EXPECT_NEAR(timer.ms(), 2e3 * 2e3 * 3e3 / 1e11 * 1e3 + kLaunch, 1e-6);
  const double before = timer.ms();
  const auto d = c.t().tanh();  // a view takes no time
  EXPECT_NEAR(timer.ms() - before, 2 * 1e3 * 3e3 * 4 / 1e10 * 1e3 + kLaunch, 1e-6);
  const double after = timer.ms();
  EXPECT_EQ(c.to(at::kFloat).data_ptr(), nullptr);  // there is nothing to convert
  EXPECT_EQ(timer.ms(), after);
}

ModelPlanRequest small_request(Objective objective) {
  ModelPlanRequest request;
  request.config = config_of("llama");
  request.device = device_profile("h100");
  request.device.memory_bytes = some_cpu().memory_bytes;
  request.objective = objective;
  request.rows = 2;
  request.length = NextTokenStep::kLength;
  if (objective == Objective::Kd) {
    request.teacher = request.config;
  }
  return request;
}

TEST(PlanModel, KnowsTheModelsOfEveryObjective) {
  const auto sft = plan_model(small_request(Objective::Sft));
  EXPECT_EQ(sft.standing.frozen, 0);
  EXPECT_EQ(sft.standing.gradients, sft.standing.parameters);
  EXPECT_GT(sft.most_rows, 2);
  EXPECT_GT(sft.longest_row, NextTokenStep::kLength);
  EXPECT_EQ(sft.curve.back().slowdown, 1);
  for (const auto objective : {Objective::Dpo, Objective::Kto, Objective::Kd}) {
    const auto plan = plan_model(small_request(objective));
    EXPECT_EQ(plan.standing.frozen, sft.standing.parameters);
    EXPECT_EQ(plan.standing.optimizer, sft.standing.optimizer);
  }
  const auto rm = plan_model(small_request(Objective::Rm));
  EXPECT_LT(rm.loss_bytes, sft.loss_bytes);
  const auto grpo = plan_model(small_request(Objective::Grpo));
  EXPECT_GT(grpo.cache_bytes, 0);
  const auto ppo = plan_model(small_request(Objective::Ppo));
  EXPECT_GT(ppo.standing.frozen, 0);
  EXPECT_GT(ppo.standing.optimizer, sft.standing.optimizer);
}

TEST(PlanModel, MovesToTheHostWhatABudgetNeeds) {
  auto request = small_request(Objective::Sft);
  const auto whole = plan_model(request);
  ASSERT_EQ(whole.placements.size(), 4U);
  EXPECT_EQ(whole.host, Placement{});
  EXPECT_EQ(whole.standing.host, 0);
  const auto& all_moved = whole.placements.back();
  EXPECT_EQ(all_moved.host, (Placement{.state = true, .gradients = true}));
  EXPECT_LT(all_moved.least_bytes, whole.placements.front().least_bytes);
  EXPECT_EQ(all_moved.moved_bytes, 2 * (whole.standing.gradients + whole.standing.optimizer));
  for (const auto& place : whole.placements) {
    EXPECT_TRUE(place.fits);
    request.limits.total = Budget{.bytes = place.least_bytes * 101 / 100};
    const auto plan = plan_model(request);
    EXPECT_LE(plan.standing.sum() + plan.curve[plan.chosen].activation_bytes,
              request.limits.total->bytes);
  }
  request.limits.total = Budget{.bytes = all_moved.least_bytes * 101 / 100};
  const auto moved = plan_model(request);
  EXPECT_TRUE(moved.host.state);
  EXPECT_EQ(moved.standing.host, all_moved.host_bytes);
  request.limits.may_offload_state = false;
  EXPECT_THROW(plan_model(request), c10::Error);
}

TEST(PlanModel, HasLessOfEverythingInAWorldButActivations) {
  auto request = small_request(Objective::Dpo);
  request.rows = 1;
  const auto whole = plan_model(request);
  request.world = ParallelSetup{.size = 8, .strategy = Parallel::Fsdp};
  const auto plan = plan_model(request);
  EXPECT_GE(plan.plain().activation_bytes, whole.plain().activation_bytes);
  EXPECT_GT(plan.curve.size(), 2U);
  EXPECT_NEAR(share(8 * plan.standing.parameters, whole.standing.parameters), 1, 0.01);
  EXPECT_EQ(plan.standing.frozen, plan.standing.parameters);
  EXPECT_NEAR(share(8 * plan.standing.optimizer, whole.standing.optimizer), 1, 0.01);
  EXPECT_NEAR(share(4 * plan.standing.gradients, whole.standing.gradients), 1, 0.01);  // float32
  EXPECT_GT(plan.standing.gathered, plan.standing.parameters);
  EXPECT_LT(plan.standing.gathered, whole.standing.parameters);
  EXPECT_LT(2 * plan.standing.sum(), whole.standing.sum());
  EXPECT_GT(plan.most_rows, 1);
  // All that processes do under ddp is to sum gradients, in float32.
  request.world = ParallelSetup{.size = 8, .strategy = Parallel::Ddp};
  const auto ddp = plan_model(request).standing;
  EXPECT_EQ(ddp.gathered, 0);
  EXPECT_EQ(ddp.optimizer, whole.standing.optimizer);
  EXPECT_NEAR(share(ddp.gradients, 2 * whole.standing.gradients), 1, 0.01);
  EXPECT_GT(ddp.reductions, 0);
  request.world->size = 0;
  EXPECT_THROW(plan_model(request), c10::Error);
}

TEST(PlanModel, NamesTheLongestRowThatAnyPlanFits) {
  auto request = small_request(Objective::Sft);
  // So many that their inputs take more than one of them computes with: plans join blocks.
  request.config = widened_config(
      "llama", {.width = 128, .inner = 320, .layers = 24, .positions = 96, .vocabulary = 320});
  request.rows = 1;
  const auto longest = plan_model(request).longest_row;
  request.length = longest;
  EXPECT_EQ(plan_model(request).batches.size(), 1U);
  request.length = longest * 17 / 16;
  const auto message = message_of<c10::Error>([&] { plan_model(request); });
  EXPECT_TRUE(contains(message, "no plan fits")) << message << longest;
}

TEST(PlanModel, HoldsItsBudgetAndNamesTheLeast) {
  auto request = small_request(Objective::Sft);
  request.device = some_cpu();
  request.dtype = at::kFloat;
  request.limits.activations = Budget{.kind = Budget::Kind::Fraction, .fraction = 0.7};
  const auto plan = plan_model(request);
  EXPECT_LE(plan.curve[plan.chosen].activation_bytes, plan.budget);
  EXPECT_GT(plan.curve[plan.chosen].slowdown, 1);
  request.limits.activations = Budget{.bytes = plan.least().activation_bytes - 1};
  const auto message = message_of<c10::Error>([&] { plan_model(request); });
  EXPECT_TRUE(contains(message, std::to_string(plan.least().activation_bytes))) << message;
}

INSTANTIATE_TEST_SUITE_P(Families,
                         MetaTraces,
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
                                           std::pair("falcon_grouped", false),
                                           std::pair("falcon_alibi", false),
                                           std::pair("bloom", false),
                                           std::pair("bloom", true),
                                           std::pair("opt", false),
                                           std::pair("opt_post_norm", true),
                                           std::pair("gptj", false),
                                           std::pair("gpt_neo", false),
                                           std::pair("stablelm_parallel", false),
                                           std::pair("nemotron", false)),
                         [](const auto& family) {
                           return family.param.first + (family.param.second ? "_lora" : "");
                         });

}  // namespace
}  // namespace reprise::testing
