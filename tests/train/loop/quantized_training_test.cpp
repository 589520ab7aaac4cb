// Training adapters on a quantised base: the same bits within every memory budget, the bytes that
// the meter and plans know, references without adapters, rollouts, and several processes.
#include "support/bitwise.h"
#include "support/temporary_folder.h"
#include "support/thread_world.h"
#include "train/collecting_observer.h"
#include "train/objectives/forward_passes.h"
#include "train/online/online_case.h"
#include "train/training_case.h"

#include <reprise/model/quantization.h>
#include <reprise/parallel/shard.h>
#include <reprise/train/memory_budget.h>
#include <reprise/train/model_plan.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

namespace reprise::testing {
namespace {

constexpr int64_t kSteps = 4;

Json quantized_run(const std::string& objective, const std::string& format) {
  Json run = usual_run(objective, kSteps);
  run["quantize"] = format;
  run["lora"] = {{"dropout", 0.1}};
  run.erase("reference");
  return run;
}

struct Outcome {
  CollectingObserver observer;
  std::vector<at::Tensor> weights;
};

std::vector<at::Tensor> adapters_of(const Model& model) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, parameter] : trained_parameters(model)) {
    tensors.push_back(parameter.detach().clone());
  }
  return tensors;
}

Outcome run(const std::string& objective, const Json& json, const MemoryLimits& limits) {
  const TemporaryFolder folder;
  TrainingCase one(objective, json, folder);
  EXPECT_TRUE(is_quantized(*one.model));
  if (limits.is_set()) {
    one.model->enable_checkpointing();
    one.options.memory = limits;
  }
  Outcome outcome;
  one.train(outcome.observer);
  outcome.weights = adapters_of(*one.model);
  return outcome;
}

class QuantizedTraining : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(QuantizedTraining, IsTheSameToTheLastBitWithinItsBytes) {
  const auto [objective, format] = GetParam();
  const Json json = quantized_run(objective, format);
  const Outcome plain = run(objective, json, {});
  EXPECT_GT(plain.observer.steps.back()["grad_norm"], 0);
  for (const char* amount : {"min", "0.85", "max"}) {
    SCOPED_TRACE(amount);
    const auto found =
        run(objective, json, {.activations = parse_budget("`activation_memory_budget`", amount)});
    EXPECT_EQ(found.observer.all("loss"), plain.observer.all("loss"));
    EXPECT_EQ(found.observer.all("grad_norm"), plain.observer.all("grad_norm"));
    expect_bitwise_equal(found.weights, plain.weights);
    for (const Json& step : found.observer.steps) {
      EXPECT_LE(step.at("budget")["measured_bytes"], step.at("budget")["bytes"]) << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Objectives,
                         QuantizedTraining,
                         ::testing::Combine(::testing::Values("sft", "dpo", "kto"),
                                            ::testing::Values("nf4", "int8")),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + std::get<1>(test.param);
                         });

// Fresh adapters change nothing, so policy and reference agree before the first update.
TEST(QuantizedTraining, HasTheBaseWithoutAdaptersAsItsReference) {
  Json undropped = quantized_run("dpo", "nf4");
  undropped["lora"] = Json::object();
  const auto exact = run("dpo", undropped, {});
  EXPECT_NEAR(exact.observer.steps.front()["loss"].get<double>(), std::log(2), 1e-6);
  EXPECT_GT(std::abs(exact.observer.steps.back()["loss"].get<double>() - std::log(2)), 1e-4);
}

TEST(QuantizedTraining, CountsTheBytesOfQuantizedWeights) {
  const TemporaryFolder folder;
  const TrainingCase one("sft", quantized_run("sft", "nf4"), folder);
  int64_t parameters = 0;
  for (const auto& parameter : one.model->parameters()) {
    parameters += static_cast<int64_t>(parameter.nbytes());
  }
  EXPECT_EQ(parameter_bytes(*one.model), parameters + quantized_bytes(*one.model));
  EXPECT_GT(quantized_bytes(*one.model), 0);
}

TEST(QuantizedTraining, IsPlannedWithItsBytes) {
  ModelPlanRequest request;
  request.config = ModelConfig::read(training_fixtures() / "models" / "policy");
  request.device = device_profile("h200");
  request.rows = 2;
  request.length = 64;
  request.lora = LoraConfig{};
  const auto plain = plan_model(request);
  request.config.quantization = QuantizationConfig{.scheme = {.double_quant = true}};
  const auto quantized = plan_model(request);
  EXPECT_LT(quantized.standing.parameters, plain.standing.parameters);
  EXPECT_EQ(quantized.standing.gradients, plain.standing.gradients);
  const auto model =
      load_model(training_fixtures() / "models" / "policy",
                 {.dtype = at::kBFloat16, .quantization = request.config.quantization})
          .model;
  add_lora(*model, {}, /*seed=*/0);
  EXPECT_EQ(quantized.standing.parameters, parameter_bytes(*model));
  EXPECT_GT(quantized.plain().step_ms, plain.plain().step_ms);  // it dequantises
}

OnlineOptions online_of(OnlineCase& one) {
  one.options.iterations = 2;
  one.options.training.max_steps = 3;
  return one.options;
}

TEST(QuantizedTraining, RollsOutAndUpdatesUnderEveryPolicy) {
  const auto weights_of = [](const std::optional<CheckpointOptions>& how) {
    const TemporaryFolder folder;
    OnlineCase one(OnlineEstimator::Grpo, /*use_lora=*/true, {}, QuantizationConfig{});
    online_of(one);
    one.add_reference_in_loss(0.05);
    if (how) {
      one.checkpoint(*how);
    }
    CollectingObserver observer;
    one.train(observer, folder / "output");
    EXPECT_TRUE(is_quantized(*one.policy));
    return one.weights();
  };
  const auto plain = weights_of({});
  expect_bitwise_equal(weights_of(CheckpointOptions{}), plain);
  expect_bitwise_equal(weights_of(checkpoint_options_named("attention")), plain);
}

std::vector<at::Tensor> train_in_world(Parallel strategy) {
  const TemporaryFolder folder;
  Json json = quantized_run("sft", "nf4");
  json["lora"] = Json::object();      // these processes are threads, which share a generator
  TrainingCase("sft", json, folder);  // the data set's cache, made by one
  std::vector<std::vector<at::Tensor>> adapters(2);
  run_in_world(2, [&](const World& world) {
    TrainingCase one("sft", json, folder, TrainingCase::InWorld{world, strategy});
    CollectingObserver observer;
    one.train(observer);
    adapters[static_cast<size_t>(world.rank())] = adapters_of(*one.model);
  });
  expect_bitwise_equal(adapters[0], adapters[1]);
  return adapters[0];
}

TEST(QuantizedTraining, GivesTheSameInSeveralProcesses) {
  const auto ddp = train_in_world(Parallel::Ddp), zero2 = train_in_world(Parallel::Zero2);
  ASSERT_EQ(ddp.size(), zero2.size());
  for (size_t i = 0; i < ddp.size(); ++i) {
    EXPECT_TRUE(at::allclose(ddp[i], zero2[i], 1e-4, 1e-6)) << i;
  }
}

TEST(QuantizedTraining, IsRefusedByFsdp) {
  const TemporaryFolder folder;
  const TrainingCase one("sft", quantized_run("sft", "nf4"), folder);
  run_in_world(2, [&](const World& world) {
    EXPECT_TRUE(contains(
        message_of<c10::Error>([&] { shard(*one.model, world, {.strategy = Parallel::Fsdp}); }),
        "fsdp cannot shard a quantised model"));
  });
}

}  // namespace
}  // namespace reprise::testing
