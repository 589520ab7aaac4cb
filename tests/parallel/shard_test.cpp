// A step of a sharded model: the gradients of one process, whatever the strategy, the world, the
// family and the memory policy; one gather a block for forward, and one for all of backward.
#include "parallel/strategies.h"
#include "support/fixtures.h"
#include "support/parity.h"
#include "support/thread_world.h"

#include <reprise/loss/head.h>
#include <reprise/loss/next_token.h>
#include <reprise/model/lora.h>
#include <reprise/model/pretrained.h>
#include <reprise/parallel/shard.h>

#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace reprise {
namespace {

using Gradients = std::map<std::string, at::Tensor>;

// After the name of a family: with a head of its own, and random weights.
constexpr std::string_view kUntied = " untied";

std::filesystem::path folder_of(const std::string& family) {
  return testing::fixtures() / "models" / family.substr(0, family.find(kUntied));
}

std::shared_ptr<Model> open_untied(const std::string& family) {
  auto config = ModelConfig::read(folder_of(family));
  config.tied_head = false;
  auto model = std::make_shared<Model>(config, HeadKind::CausalLm);
  model->initialize(/*seed=*/3);
  return model;
}

std::shared_ptr<Model> open_family(const std::string& family, bool has_lora) {
  auto model =
      family.ends_with(kUntied) ? open_untied(family) : load_model(folder_of(family)).model;
  if (has_lora) {
    LoraConfig config;
    config.rank = 3;
    add_lora(*model, config, /*seed=*/5);
    // B is zero at first, and so would be the gradients of A.
    const at::NoGradGuard no_grad;
    for (const auto& [name, parameter] : trained_parameters(*model)) {
      parameter.add_(0.01);
    }
  }
  return model;
}

void choose_policy(Model& model, const std::string& policy) {
  if (policy == "reentrant") {
    model.enable_checkpointing(BlockChoice::all(), {.use_reentrant = true});
  } else if (policy != "none") {
    model.enable_checkpointing(BlockChoice::all(), checkpoint_options_named(policy));
  }
}

at::Tensor loss_of(Model& model, const std::string& family) {
  const testing::Expected expected(folder_of(family));
  ModelInput input;
  input.input_ids = expected["input_ids"];
  input.attention_mask = expected["attention_mask"];
  return next_token_loss(model.forward(input), input.input_ids);
}

Gradients whole_gradients(const std::string& family, bool has_lora) {
  const auto model = open_family(family, has_lora);
  loss_of(*model, family).backward();
  Gradients gradients;
  for (const auto& [name, parameter] : trained_parameters(*model)) {
    gradients[name] = parameter.grad().clone();
  }
  return gradients;
}

// Each process has an equal share of the loss, in two micro-batches.
void step(Model& model, ShardedModel& sharded, const std::string& family) {
  for (const bool is_last : {false, true}) {
    sharded.begin_micro_batch(is_last);
    (loss_of(model, family) / (2 * sharded.world().size())).backward();
    sharded.end_backward();
  }
}

using ShardedStepCase =
    std::tuple<std::string, int64_t, std::string, bool>;  // family, world, policy, LoRA

class ShardTest : public ::testing::TestWithParam<ShardedStepCase> {};

TEST_P(ShardTest, HasTheGradientsOfOneProcess) {
  const auto& [family, size, policy, has_lora] = GetParam();
  const auto expected = whole_gradients(family, has_lora);
  for (const auto strategy : testing::kStrategies) {
    std::map<std::string, int64_t> elements;
    std::mutex mutex;
    testing::run_in_world(
        size, [&, &family = family, &policy = policy, has_lora = has_lora](const World& world) {
          const auto model = open_family(family, has_lora);
          choose_policy(*model, policy);
          const auto sharded = reprise::shard(*model, world, {.strategy = strategy});
          step(*model, *sharded, family);
          const std::scoped_lock lock(mutex);
          for (const auto& part : sharded->trained()) {
            const auto whole = expected.at(part.name).view({-1});
            ASSERT_TRUE(part.values.grad().defined()) << part.name;
            EXPECT_TRUE(at::allclose(part.values.grad(),
                                     whole.narrow(0, part.begin, part.values.numel()),
                                     /*rtol=*/1e-4,
                                     /*atol=*/1e-6))
                << name_of(strategy) << " " << part.name;
            elements[part.name] += part.values.numel();
          }
        });
    for (const auto& [name, gradient] : expected) {
      EXPECT_EQ(elements[name], gradient.numel() * (strategy == Parallel::Ddp ? size : 1)) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All,
                         ShardTest,
                         ::testing::Values(ShardedStepCase("llama", 1, "none", false),
                                           ShardedStepCase("llama", 2, "full", false),
                                           ShardedStepCase("llama_untied", 3, "attention", false),
                                           ShardedStepCase("mistral", 2, "reentrant", false),
                                           ShardedStepCase("qwen2", 3, "none", false),
                                           ShardedStepCase("qwen3", 4, "full", true),
                                           ShardedStepCase("gpt2", 2, "matmuls", false),
                                           ShardedStepCase("gpt_neox", 3, "full", true),
                                           ShardedStepCase("gemma2", 2, "attention", false),
                                           ShardedStepCase("cohere2", 3, "full", true),
                                           ShardedStepCase("chatglm2", 2, "attention", true),
                                           ShardedStepCase("bloom", 2, "attention", false),
                                           ShardedStepCase("opt_post_norm", 3, "full", false),
                                           ShardedStepCase("bloom untied", 2, "full", false),
                                           ShardedStepCase("opt_post_norm untied", 2, "none", true),
                                           ShardedStepCase("phi", 2, "reentrant", true),
                                           ShardedStepCase("stablelm_parallel", 2, "full", false),
                                           ShardedStepCase("llama_untied", 2, "reentrant", true)));

// What a process has gathered stays where it is, so that the next pass would find it.
TEST(Shard, GathersABlockOnceForForwardAndOnceForAllOfBackward) {
  for (const char* policy : {"none", "full", "attention", "reentrant"}) {
    for (const bool prefetches : {true, false}) {
      testing::run_in_world(2, [&](const World& world) {
        const auto model = open_family("llama_untied", /*has_lora=*/false);
        choose_policy(*model, policy);
        const auto sharded =
            reprise::shard(*model, world, {.strategy = Parallel::Fsdp, .prefetch = prefetches});
        step(*model, *sharded, "llama_untied");
        const auto& traffic = sharded->traffic();
        const auto places = static_cast<size_t>(model->config().layers) + 2;
        ASSERT_EQ(traffic.forward_gathers, std::vector<int64_t>(places, 2));
        std::vector<int64_t> backward(places, 2);
        backward.front() = 0;  // the gradient of a table of vectors needs none of its values
        backward.back() = 0;   // the head stays from its loss to its backward
        EXPECT_EQ(traffic.backward_gathers, backward) << policy;
        EXPECT_EQ(traffic.reductions, std::vector<int64_t>(places, 2)) << policy;
      });
    }
  }
}

// A head whose loss is made a few tokens at a time, and asked for before and after the pass.
TEST(Shard, GathersTheHeadOnceForAllOfItsChunks) {
  for (const char* family : {"llama", "llama_untied"}) {
    testing::run_in_world(2, [&](const World& world) {
      const auto model = open_family(family, /*has_lora=*/false);
      choose_policy(*model, "full");
      const auto sharded = reprise::shard(*model, world, {.strategy = Parallel::Fsdp});
      const testing::Expected expected(folder_of(family));
      ModelInput input;
      input.input_ids = expected["input_ids"];
      sharded->begin_micro_batch(/*is_last=*/true);
      const auto head = model->linear_head();
      const auto hidden = model->hidden_states(input);
      linear_cross_entropy(
          hidden, head, input.input_ids, TokenWeighting::None, HeadChunks{.tokens = 3})
          .sum.backward();
      sharded->end_backward();
      const auto& traffic = sharded->traffic();
      const auto top = traffic.forward_gathers.size() - 1;
      // A tied head is the embeddings' unit, which has come by then.
      const bool is_tied = model->has_tied_head();
      EXPECT_EQ(traffic.forward_gathers[0] + traffic.forward_gathers[top], is_tied ? 1 : 2);
      EXPECT_EQ(traffic.backward_gathers[top], 0);
      EXPECT_EQ(traffic.reductions[0] + traffic.reductions[top], is_tied ? 1 : 2);
    });
  }
}

TEST(Shard, DdpTalksOnceAStep) {
  testing::run_in_world(2, [&](const World& world) {
    const auto model = open_family("llama_untied", /*has_lora=*/false);
    const auto sharded = reprise::shard(*model, world, {.strategy = Parallel::Ddp});
    step(*model, *sharded, "llama_untied");
    const auto places = static_cast<size_t>(model->config().layers) + 2;
    EXPECT_EQ(sharded->traffic().reductions, std::vector<int64_t>(places, 1));
    EXPECT_EQ(sharded->traffic().bytes_gathered, 0);
  });
}

// The law, in a world: to the last bit the same with and without checkpointing.
TEST(Shard, CheckpointingChangesNoBit) {
  for (const auto strategy : testing::kStrategies) {
    std::map<std::tuple<std::string, int64_t, std::string>, at::Tensor> found;
    std::mutex mutex;
    for (const char* policy : {"none", "full", "attention", "matmuls"}) {
      testing::run_in_world(3, [&](const World& world) {
        const auto model = open_family("qwen2", /*has_lora=*/false);
        choose_policy(*model, policy);
        const auto sharded = reprise::shard(*model, world, {.strategy = strategy});
        step(*model, *sharded, "qwen2");
        const std::scoped_lock lock(mutex);
        for (const auto& part : sharded->trained()) {
          found[{policy, world.rank(), part.name}] = part.values.grad().clone();
        }
      });
    }
    for (const auto& [key, gradient] : found) {
      const auto& plain = found.at({"none", std::get<1>(key), std::get<2>(key)});
      EXPECT_TRUE(at::equal(gradient, plain)) << std::get<0>(key) << " " << std::get<2>(key);
    }
  }
}

// What objectives do between forward and backward: a pass of the same model without gradients, and
// a second pass with them.
TEST(Shard, OtherPassesMayComeBeforeBackward) {
  for (const char* family : {"llama", "llama_untied"}) {
    const auto expected = whole_gradients(family, /*has_lora=*/false);
    testing::run_in_world(2, [&](const World& world) {
      const auto model = open_family(family, /*has_lora=*/false);
      choose_policy(*model, "full");
      const auto sharded = reprise::shard(*model, world, {.strategy = Parallel::Fsdp});
      sharded->begin_micro_batch(/*is_last=*/true);
      auto loss = loss_of(*model, family);
      {
        const at::NoGradGuard no_grad;
        loss_of(*model, family);
        sharded->settle();
      }
      loss = loss + loss_of(*model, family);
      (loss / (2 * world.size())).backward();
      sharded->end_backward();
      for (const auto& part : sharded->trained()) {
        EXPECT_TRUE(at::allclose(
            part.values.grad(),
            expected.at(part.name).view({-1}).narrow(0, part.begin, part.values.numel()),
            /*rtol=*/1e-4,
            /*atol=*/1e-6))
            << part.name;
      }
    });
  }
}

// A parameter that backward reaches in one process only counts in all; one that it reaches nowhere
// is left alone.
TEST(Shard, ProcessesAgreeOnWhichParametersHaveGradients) {
  for (const auto strategy : testing::kStrategies) {
    testing::run_in_world(2, [&](const World& world) {
      const auto model = open_family("llama_untied", /*has_lora=*/false);
      const auto sharded = reprise::shard(*model, world, {.strategy = strategy});
      for (int step = 0; step < 2; ++step) {
        sharded->begin_micro_batch(/*is_last=*/true);
        const testing::Expected expected(folder_of("llama_untied"));
        ModelInput input;
        input.input_ids = expected["input_ids"];
        const auto hidden = model->hidden_states(input);
        // The head takes part in the second process only.
        const auto loss = hidden.square().mean();
        (world.rank() == 0 ? loss : loss + model->apply_head(hidden).mean()).backward();
        sharded->end_backward();
        for (const auto& part : sharded->trained()) {
          EXPECT_TRUE(part.values.grad().defined()) << part.name;
          part.values.mutable_grad().reset();
        }
      }
    });
  }
}

TEST(Shard, LeavesParametersWithoutGradientsAlone) {
  testing::run_in_world(2, [&](const World& world) {
    const auto model = open_family("llama_untied", /*has_lora=*/false);
    const auto sharded = reprise::shard(*model, world, {.strategy = Parallel::Zero2});
    for (int step = 0; step < 2; ++step) {
      sharded->begin_micro_batch(/*is_last=*/true);
      const testing::Expected expected(folder_of("llama_untied"));
      ModelInput input;
      input.input_ids = expected["input_ids"];
      model->hidden_states(input).square().mean().backward();
      sharded->end_backward();
      for (const auto& part : sharded->trained()) {
        EXPECT_EQ(part.values.grad().defined(), part.name != "lm_head.weight") << part.name;
      }
    }
  });
}

// Sums go in a narrow type, but add up over micro-batches in float32.
TEST(Shard, ReducesInTheTypeThatWasAsked) {
  testing::run_in_world(2, [&](const World& world) {
    const auto model = open_family("llama", /*has_lora=*/false);
    const auto sharded =
        reprise::shard(*model, world, {.strategy = Parallel::Fsdp, .reduce_dtype = at::kBFloat16});
    step(*model, *sharded, "llama");
    const auto expected = whole_gradients("llama", /*has_lora=*/false);
    for (const auto& part : sharded->trained()) {
      EXPECT_EQ(part.values.grad().scalar_type(), at::kFloat);
      const auto whole = expected.at(part.name).view({-1});
      EXPECT_TRUE(at::allclose(part.values.grad(),
                               whole.narrow(0, part.begin, part.values.numel()),
                               /*rtol=*/0.03,
                               /*atol=*/1e-3))
          << part.name;
    }
  });
}

TEST(Shard, ParametersHaveMemoryOnlyWhileTheyAreNeeded) {
  testing::run_in_world(2, [&](const World& world) {
    const auto model = open_family("llama", /*has_lora=*/false);
    const auto sharded = reprise::shard(*model, world, {.strategy = Parallel::Fsdp});
    const auto memory = [&] {
      int64_t bytes = 0;
      for (const auto& parameter : model->parameters()) {
        bytes += static_cast<int64_t>(parameter.storage().nbytes());
      }
      return bytes;
    };
    EXPECT_EQ(memory(), 0);
    step(*model, *sharded, "llama");
    EXPECT_EQ(memory(), 0);
    {
      const UnshardedParameters held(*model);
      const at::NoGradGuard no_grad;
      // Each process as often as it likes: nobody else is needed.
      for (int64_t i = 0; i < world.rank(); ++i) {
        loss_of(*model, "llama");
      }
      EXPECT_GT(memory(), 0);
    }
    EXPECT_EQ(memory(), 0);
  });
}

// After an update the parameters that passes see are the updated parts of all processes.
TEST(Shard, PassesSeeWhatWasUpdated) {
  const auto whole = open_family("llama", /*has_lora=*/false);
  {
    const at::NoGradGuard no_grad;
    for (const auto& parameter : whole->parameters()) {
      parameter.mul_(1.5);
    }
  }
  const auto expected = loss_of(*whole, "llama").item<float>();
  for (const auto strategy : testing::kStrategies) {
    testing::run_in_world(3, [&](const World& world) {
      const auto model = open_family("llama", /*has_lora=*/false);
      const auto sharded = reprise::shard(*model, world, {.strategy = strategy});
      for (const auto& part : sharded->trained()) {
        part.values.mul_(1.5);
      }
      sharded->after_update();
      const at::NoGradGuard no_grad;
      EXPECT_FLOAT_EQ(loss_of(*model, "llama").item<float>(), expected) << name_of(strategy);
      sharded->settle();
    });
  }
}

}  // namespace
}  // namespace reprise
