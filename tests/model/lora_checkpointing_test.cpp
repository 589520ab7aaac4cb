// LoRA and checkpointing together: for every family, variant and mode the same bits as without,
// whichever came first, the same with budgets, and no work below the lowest trained block.
#include "model/lora_case.h"
#include "plan/run_planned.h"
#include "plan/steady_times.h"
#include "plan/step_planner.h"

#include <reprise/memory.h>
#include <reprise/stats.h>

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <tuple>

namespace reprise {
namespace {

using testing::expect_same_step;
using testing::plain_input;
using testing::step_of;

struct Mode {
  std::string name;
  BlockChoice blocks;
  CheckpointOptions options;
};

std::vector<Mode> modes() {
  return {{"full", BlockChoice::all(), {}},
          {"every_2", BlockChoice::every(2), {}},
          {"attention_kept", BlockChoice::all(), checkpoint_options_named("attention")},
          {"matmuls_kept", BlockChoice::all(), checkpoint_options_named("matmuls")},
          {"reentrant", BlockChoice::all(), {.use_reentrant = true}}};
}

LoraConfig all_linear() {
  return testing::lora_variant("lora");
}

std::shared_ptr<Model> trainable_adapted(const std::string& name,
                                         const LoraConfig& config = all_linear()) {
  auto model = testing::open_model(name);
  model->train();
  add_lora(*model, config, 1);
  testing::shake(*model);
  return model;
}

// Blocks that a step recomputed, by the names of their regions.
std::set<std::string> recomputed_blocks(const std::function<void()>& step) {
  record_checkpoint_stats(true);
  reset_checkpoint_stats();
  step();
  std::set<std::string> names;
  for (const auto& [name, region] : checkpoint_stats().regions) {
    EXPECT_EQ(region.entered, region.recomputed) << name;
    names.insert(name);
  }
  record_checkpoint_stats(false);
  return names;
}

using FamilyVariantAndMode = std::tuple<std::string, std::string, size_t>;

class LoraOnFamily : public ::testing::TestWithParam<FamilyVariantAndMode> {
 protected:
  const std::string& family() const { return std::get<0>(GetParam()); }
  LoraConfig config() const { return testing::lora_variant(std::get<1>(GetParam())); }
  Mode mode() const { return modes()[std::get<2>(GetParam())]; }
};

TEST_P(LoraOnFamily, HasTheSameLossAndGradientsWithCheckpointing) {
  const auto model = trainable_adapted(family(), config());
  const auto plain = step_of(*model, plain_input());
  model->enable_checkpointing(mode().blocks, mode().options);
  testing::Step step;
  const auto recomputed = recomputed_blocks([&] { step = step_of(*model, plain_input()); });
  EXPECT_EQ(recomputed.size(), model->checkpointed_blocks().size());
  expect_same_step(step, plain);
}

TEST_P(LoraOnFamily, MayComeAfterCheckpointing) {
  const auto plain = step_of(*trainable_adapted(family(), config()), plain_input());
  auto model = testing::open_model(family());
  model->enable_checkpointing(mode().blocks, mode().options);
  add_lora(*model, config(), 1);
  testing::shake(*model);
  model->train();
  expect_same_step(step_of(*model, plain_input()), plain);
}

INSTANTIATE_TEST_SUITE_P(Modes,
                         LoraOnFamily,
                         ::testing::Combine(::testing::ValuesIn(testing::family_cases()),
                                            ::testing::Values("lora", "dora", "pissa"),
                                            ::testing::Range(size_t{0}, modes().size())),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + std::get<1>(test.param) + "_" +
                                  modes()[std::get<2>(test.param)].name;
                         });

TEST(LoraCheckpointing, GivesTheSameBitsWithinEveryBudget) {
  track_cpu_memory();
  for (const auto& [name, config] : testing::lora_variants()) {
    const auto model = trainable_adapted("llama", config);
    const auto plain = step_of(*model, plain_input());
    model->enable_checkpointing();
    testing::Step step;
    const auto run = [&] { step = step_of(*model, plain_input()); };
    const auto trace = testing::with_steady_times(planning::trace_step(run, at::kCPU));
    const planning::StepPlanner planner(trace);
    const int64_t least = planner.least_bytes(), most = planner.most_bytes();
    ASSERT_LT(least, most) << name;
    for (const int64_t budget : {least, (least + most) / 2, most}) {
      testing::run_planned(planner.plan_for(budget).decisions, run);
      expect_same_step(step, plain);
    }
  }
}

TEST(LoraCheckpointing, LeavesTheGradientsOfAScoreHeadAsTheyAre) {
  const auto make = [] {
    auto model = testing::open_model("llama_score", {.head = HeadKind::Score});
    add_lora(*model, all_linear(), 1);
    testing::shake(*model);
    return model;
  };
  const auto plain = step_of(*make(), plain_input());
  EXPECT_TRUE(plain.gradients.contains("base_model.model.score.weight"));
  for (const auto& mode : modes()) {
    auto model = make();
    model->enable_checkpointing(mode.blocks, mode.options);
    expect_same_step(step_of(*model, plain_input()), plain);
  }
}

TEST(LoraCheckpointing, GivesTheSameBitsWithFloat32AdaptersOnABFloat16Base) {
  const auto make = [] {
    auto model = testing::open_model("llama", {.dtype = at::kBFloat16});
    add_lora(*model, all_linear(), 1);
    testing::shake(*model);
    model->train();
    return model;
  };
  const auto plain = step_of(*make(), plain_input());
  for (const auto& mode : modes()) {
    auto model = make();
    model->enable_checkpointing(mode.blocks, mode.options);
    expect_same_step(step_of(*model, plain_input()), plain);
  }
}

LoraConfig only_layer(int64_t layer) {
  LoraConfig config;
  config.targets = std::vector<std::string>{"q_proj", "down_proj"};
  config.layers = {layer};
  return config;
}

TEST(LoraCheckpointing, RecomputesNothingBelowTheLowestTrainedBlock) {
  for (const auto& mode : {modes().front(), modes().back()}) {
    const auto model = trainable_adapted("llama", only_layer(1));
    const auto plain = step_of(*model, plain_input());
    model->enable_checkpointing(mode.blocks, mode.options);
    testing::Step step;
    const auto recomputed = recomputed_blocks([&] { step = step_of(*model, plain_input()); });
    EXPECT_EQ(recomputed, (std::set<std::string>{"model.layers.1", "model.layers.2"})) << mode.name;
    expect_same_step(step, plain);
  }
}

// Nodes between a result and the parameters it depends on.
size_t graph_size(const at::Tensor& result) {
  std::set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> open = {result.grad_fn().get()};
  while (!open.empty()) {
    auto* node = open.back();
    open.pop_back();
    if (node != nullptr && seen.insert(node).second) {
      for (const auto& edge : node->next_edges()) {
        open.push_back(edge.function.get());
      }
    }
  }
  return seen.size();
}

TEST(LoraCheckpointing, DifferentiatesNothingBelowTheLowestTrainedBlock) {
  const auto nodes = [](int64_t lowest) {
    return graph_size(trainable_adapted("llama", only_layer(lowest))->forward(plain_input()));
  };
  const size_t low = nodes(0), middle = nodes(1), high = nodes(2);
  EXPECT_LT(high, middle);
  EXPECT_LT(middle, low);
  EXPECT_EQ(low - middle, middle - high) << "each block below adds the same number of nodes";
}

TEST(LoraCheckpointing, CanBeFrozenFurtherByHand) {
  const auto model = trainable_adapted("llama");
  for (const auto& item : model->named_parameters()) {
    if (item.key().starts_with("model.layers.0.")) {
      item.value().requires_grad_(false);
    }
  }
  const auto plain = step_of(*model, plain_input());
  model->enable_checkpointing(BlockChoice::all(), {.use_reentrant = true});
  testing::Step step;
  const auto recomputed = recomputed_blocks([&] { step = step_of(*model, plain_input()); });
  EXPECT_EQ(recomputed, (std::set<std::string>{"model.layers.1", "model.layers.2"}));
  expect_same_step(step, plain);
}

TEST(LoraCheckpointing, LeavesPassesWithoutGradientsAlone) {
  const auto model = trainable_adapted("llama");
  model->enable_checkpointing();
  const auto recomputed = recomputed_blocks([&] {
    testing::logits_of(*model, plain_input());
    testing::logits_of(*model, plain_input(), AdapterUse::Off);
  });
  EXPECT_TRUE(recomputed.empty());
}

TEST(LoraCheckpointing, CallsTensorHooksOncePerStepWithTheGradient) {
  for (const auto& mode : modes()) {
    const auto model = trainable_adapted("chatglm2");
    model->enable_checkpointing(mode.blocks, mode.options);
    std::map<std::string, std::vector<at::Tensor>> seen;
    for (const auto& [name, parameter] : trained_parameters(*model)) {
      parameter.register_hook([&seen, key = name](const at::Tensor& gradient) {
        seen[key].push_back(gradient.clone());
      });
    }
    const auto step = step_of(*model, plain_input());
    ASSERT_EQ(seen.size(), step.gradients.size()) << mode.name;
    for (const auto& [name, gradient] : step.gradients) {
      ASSERT_EQ(seen[name].size(), 1u) << mode.name << " " << name;
      EXPECT_TRUE(testing::bitwise_equal(seen[name].front(), gradient)) << name;
    }
  }
}

TEST(LoraCheckpointing, LetsAHookChangeTheGradient) {
  for (const auto& mode : modes()) {
    const auto model = trainable_adapted("chatglm2");
    const auto plain = step_of(*model, plain_input());
    model->enable_checkpointing(mode.blocks, mode.options);
    const auto [name, parameter] = trained_parameters(*model).front();
    parameter.register_hook([](const at::Tensor& gradient) { return gradient * 2; });
    const auto step = step_of(*model, plain_input());
    EXPECT_TRUE(testing::bitwise_equal(step.gradients.at(name), plain.gradients.at(name) * 2))
        << mode.name;
  }
}

}  // namespace
}  // namespace reprise
