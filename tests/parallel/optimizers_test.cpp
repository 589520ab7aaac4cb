// Every optimizer over a sharded model: what one process would compute, bit for bit, or a refusal
// that says what to use.
#include "parallel/random_rows.h"
#include "parallel/strategies.h"
#include "support/bitwise.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"
#include "support/tensors.h"
#include "support/thread_world.h"
#include "train/collecting_observer.h"

#include <reprise/io/json.h>
#include <reprise/io/tensor_file.h>
#include <reprise/model/lora.h>
#include <reprise/optim/optimizer.h>
#include <reprise/parallel/shard.h>
#include <reprise/train/sft.h>
#include <reprise/train/trainer.h>
#include "io/safetensors/distributed_write.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace reprise::testing {
namespace {

constexpr int kSteps = 3;

/// Wide enough that some parameters have moments of 8 bits.
std::shared_ptr<Model> wide_model(at::ScalarType dtype) {
  Json json = read_json(fixtures() / "models/llama/config.json");
  json["hidden_size"] = 72;
  json["intermediate_size"] = 190;
  auto model = std::make_shared<Model>(
      ModelConfig::from_json(json, "llama"), HeadKind::CausalLm, at::device(at::kCPU).dtype(dtype));
  model->initialize(/*seed=*/1);
  return model;
}

/// Of the whole parameter: the same in every process.
at::Tensor gradient(const TensorPart& part, int step) {
  const auto seed = std::hash<std::string>()(part.name) + static_cast<size_t>(step);
  auto generator = at::detail::createCPUGenerator(seed);
  const at::Tensor whole = at::randn(part.shape, generator).view({-1});
  return whole.narrow(0, part.begin, part.values.numel());
}

void take_steps(Optimizer& optimizer, ShardedModel* sharded) {
  for (int step = 0; step < kSteps; ++step) {
    for (const TensorPart& part : optimizer.parts()) {
      part.values.mutable_grad() =
          gradient(part, step).to(part.values.scalar_type()).view(part.values.sizes());
    }
    optimizer.step(0.01 * (step + 1));
    if (sharded != nullptr) {
      sharded->after_update();
    }
  }
}

/// Parameters and state by name, flat.
std::map<std::string, at::Tensor> results_of_one(const OptimizerOptions& options,
                                                 at::ScalarType dtype) {
  const auto model = wide_model(dtype);
  const auto optimizer = Optimizer::make(trained_parameters(*model), options);
  take_steps(*optimizer, nullptr);
  std::map<std::string, at::Tensor> results;
  for (const auto& [name, parameter] : optimizer->parameters()) {
    results[name] = parameter.detach().view({-1});
  }
  for (const TensorPart& state : optimizer->state_parts()) {
    results[state.name] = state.values;
  }
  return results;
}

void expect_parts_of(const std::map<std::string, at::Tensor>& whole,
                     const std::vector<TensorPart>& parts) {
  for (const TensorPart& part : parts) {
    const at::Tensor expected = whole.at(part.name).narrow(0, part.begin, part.values.numel());
    EXPECT_TRUE(bitwise_equal(part.values.detach().view({-1}), expected.clone())) << part.name;
  }
}

using OptimizerCase = std::tuple<OptimizerKind, at::ScalarType>;

class ShardedOptimizerTest : public ::testing::TestWithParam<OptimizerCase> {};

// Cut between blocks for every kind: LibTorch's kernels round the ends of other slices differently.
TEST_P(ShardedOptimizerTest, ComputesWhatOneProcessDoes) {
  const auto& [kind, dtype] = GetParam();
  const OptimizerOptions options = {.kind = kind, .weight_decay = 0.1, .seed = 11};
  const auto whole = results_of_one(options, dtype);
  for (const auto strategy : kStrategies) {
    if (strategy != Parallel::Ddp && updates_whole_parameters(kind)) {
      continue;
    }
    SCOPED_TRACE(name_of(strategy));
    for (const int64_t size : {2, 3}) {
      run_in_world(size, [&, dtype = dtype](const World& world) {
        const auto model = wide_model(dtype);
        const auto sharded =
            reprise::shard(*model, world, {.strategy = strategy, .block_elements = 256});
        const auto optimizer = Optimizer::make(sharded->trained(), options);
        take_steps(*optimizer, sharded.get());
        expect_parts_of(whole, optimizer->parts());
        expect_parts_of(whole, optimizer->state_parts());
      });
    }
  }
}

// As a run is resumed: by processes of another number.
TEST_P(ShardedOptimizerTest, HasItsStateReadByWorldsOfOtherSizes) {
  const auto& [kind, dtype] = GetParam();
  const OptimizerOptions options = {.kind = kind, .weight_decay = 0.1, .seed = 11};
  const auto whole = results_of_one(options, dtype);
  const TemporaryFolder folder;
  const auto strategy = updates_whole_parameters(kind) ? Parallel::Ddp : Parallel::Fsdp;
  const auto in_world = [&, dtype = dtype](int64_t size, const auto& use) {
    run_in_world(size, [&](const World& world) {
      const auto model = wide_model(dtype);
      const auto sharded =
          reprise::shard(*model, world, {.strategy = strategy, .block_elements = 256});
      use(world, *Optimizer::make(sharded->trained(), options), *sharded);
    });
  };
  in_world(3, [&](const World& world, Optimizer& optimizer, ShardedModel& sharded) {
    take_steps(optimizer, &sharded);
    io::write_safetensors_distributed(world, folder / "state", optimizer.state_parts());
  });
  in_world(2, [&](const World& world, Optimizer& optimizer, ShardedModel&) {
    optimizer.load(TensorFile(folder / "state"), world);
    expect_parts_of(whole, optimizer.state_parts());
  });
}

INSTANTIATE_TEST_SUITE_P(All,
                         ShardedOptimizerTest,
                         ::testing::Combine(::testing::Values(OptimizerKind::AdamW,
                                                              OptimizerKind::AdamW8bit,
                                                              OptimizerKind::AdamWBf16,
                                                              OptimizerKind::Lion,
                                                              OptimizerKind::Adafactor,
                                                              OptimizerKind::Muon),
                                            ::testing::Values(at::kFloat, at::kBFloat16)));

TEST(ShardedOptimizer, Of8BitsNeedsPartsOfWholeBlocks) {
  run_in_world(3, [](const World& world) {
    const auto model = wide_model(at::kFloat);
    const auto sharded = reprise::shard(*model, world, {.strategy = Parallel::Fsdp});
    expect_error([&] { Optimizer::make(sharded->trained(), {.kind = OptimizerKind::AdamW8bit}); },
                 "Shard the model with ShardOptions::block_elements = 256");
  });
}

// In all processes at once: none may wait for another.
TEST(ShardedOptimizer, OfWholeParametersIsRefusedForParts) {
  const TemporaryFolder folder;
  for (const auto kind : {OptimizerKind::Muon, OptimizerKind::Adafactor}) {
    for (const auto strategy : {Parallel::Zero2, Parallel::Fsdp}) {
      run_in_world(2, [&](const World& world) {
        const auto model = wide_model(at::kFloat);
        reprise::shard(*model, world, {.strategy = strategy});
        const auto data = std::make_shared<RandomRows>(4, model->config().vocabulary);
        const auto objective = make_sft(model);
        TrainerOptions options;
        options.output = folder.path() / std::to_string(world.rank());
        options.optimizer.kind = kind;
        CollectingObserver observer;
        expect_error(
            [&] {
              train({*objective, data, nullptr, [](const auto&) {}}, options, observer, world);
            },
            c10::str(name_of(kind),
                     " updates whole parameters, and under ",
                     name_of(strategy),
                     " a process has parts of them: use ddp, or adamw_8bit."));
      });
    }
  }
}

}  // namespace
}  // namespace reprise::testing
