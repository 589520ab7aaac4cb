// Saved optimizers: training goes on as if it had not stopped, and a file that is not the state of
// this optimizer is refused before anything changes.
#include "support/bitwise.h"
#include "support/temporary_folder.h"
#include "support/tensor_parts.h"
#include "support/tensors.h"
#include "support/thread_world.h"

#include <reprise/io/file.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>
#include <reprise/optim/optimizer.h>
#include "io/safetensors/distributed_write.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

Optimizer::Parameters parameters() {
  torch::manual_seed(3);
  const auto options = at::requires_grad();
  return {{"a.weight", torch::randn({4, 5}, options)},
          {"a.bias", torch::randn({5}, options)},
          {"b.weight", torch::randn({6}).to(at::kBFloat16).set_requires_grad(true)}};
}

void train(Optimizer& optimizer, int first_step, int last_step) {
  for (int step = first_step; step < last_step; ++step) {
    torch::manual_seed(static_cast<uint64_t>(step));
    for (const auto& [name, parameter] : optimizer.parameters()) {
      parameter.mutable_grad() = torch::randn_like(parameter).set_requires_grad(false);
    }
    optimizer.step(0.01 * (1 + step));
  }
}

NamedTensors copy_of(const NamedTensors& tensors) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors) {
    copies.emplace_back(name, tensor.detach().clone());
  }
  return copies;
}

void expect_same(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_TRUE(bitwise_equal(a[i].second, b[i].second)) << a[i].first;
  }
}

const std::vector<OptimizerOptions> kElementwise = {
    {.weight_decay = 0.1},
    {.kind = OptimizerKind::AdamWBf16, .weight_decay = 0.1, .seed = 5},
    {.kind = OptimizerKind::Lion, .weight_decay = 0.1},
    {.kind = OptimizerKind::RmsProp},
    {.kind = OptimizerKind::RmsProp, .weight_decay = 0.1, .momentum = 0.9},
    {.kind = OptimizerKind::Sgd},
    {.kind = OptimizerKind::Sgd, .momentum = 0.9}};

std::vector<OptimizerOptions> every_kind() {
  auto all = kElementwise;
  all.push_back({.kind = OptimizerKind::AdamW8bit, .weight_decay = 0.1});
  all.push_back({.kind = OptimizerKind::Adafactor, .weight_decay = 0.1, .scale_parameter = true});
  all.push_back(
      {.kind = OptimizerKind::Adafactor, .relative_step = true, .warmup_init = true, .seed = 1});
  all.push_back({.kind = OptimizerKind::Muon, .weight_decay = 0.1});
  return all;
}

TEST(OptimizerState, ContinuesBitwiseAfterSaveAndLoad) {
  for (const auto& options : every_kind()) {
    SCOPED_TRACE(name_of(options.kind));
    const TemporaryFolder folder;
    const auto whole = Optimizer::make(parameters(), options);
    train(*whole, 0, 6);
    const auto begun = Optimizer::make(parameters(), options);
    train(*begun, 0, 3);
    write_safetensors(folder / "state", begun->state());
    const auto resumed = Optimizer::make(copy_of(begun->parameters()), options);
    resumed->load(TensorFile(folder / "state"));
    expect_same(resumed->state(), begun->state());
    train(*resumed, 3, 6);
    expect_same(resumed->parameters(), whole->parameters());
    expect_same(resumed->state(), whole->state());
  }
}

TEST(OptimizerState, SetsSixteenBitParametersToTheRoundingOfTheirCopies) {
  const TemporaryFolder folder;
  const auto trained = Optimizer::make(parameters(), {});
  train(*trained, 0, 3);
  write_safetensors(folder / "state", trained->state());
  const auto fresh = Optimizer::make(parameters(), {});
  ASSERT_FALSE(bitwise_equal(fresh->parameters()[2].second, trained->parameters()[2].second));
  fresh->load(TensorFile(folder / "state"));
  EXPECT_TRUE(bitwise_equal(fresh->parameters()[2].second, trained->parameters()[2].second));
}

/// Saves what `change` makes of an AdamW state, and loads that.
void expect_refused(const std::function<void(NamedTensors&)>& change, const std::string& message) {
  const TemporaryFolder folder;
  const auto optimizer = Optimizer::make(parameters(), {});
  train(*optimizer, 0, 2);
  NamedTensors state = copy_of(optimizer->state());
  for (const auto& [name, tensor] : state) {
    tensor.add_(1);  // so that a load of some would show
  }
  change(state);
  write_safetensors(folder / "state", state);
  const NamedTensors before = copy_of(optimizer->state());
  const NamedTensors values = copy_of(optimizer->parameters());
  expect_error([&] { optimizer->load(TensorFile(folder / "state")); }, message);
  expect_same(optimizer->state(), before);
  expect_same(optimizer->parameters(), values);
}

TEST(OptimizerState, RefusesAFileThatLacksATensor) {
  expect_refused([](NamedTensors& state) { state.pop_back(); },
                 "expected a tensor \"b.weight/step\", found none");
}

TEST(OptimizerState, RefusesAFileWithMore) {
  expect_refused(
      [](NamedTensors& state) { state.emplace_back("c.weight/exp_avg", torch::zeros(1)); },
      "tensor \"c.weight/exp_avg\" does not belong to this state");
}

TEST(OptimizerState, RefusesAnotherShapeOrDtype) {
  expect_refused(
      [](NamedTensors& state) {
        state[0].second = torch::zeros({5, 4});
      },
      "tensor \"a.weight/exp_avg\": expected [4, 5] of Float, found [5, 4] of Float");
  expect_refused([](NamedTensors& state) { state[0].second = state[0].second.to(at::kHalf); },
                 "tensor \"a.weight/exp_avg\": expected [4, 5] of Float, found [4, 5] of Half");
}

TEST(OptimizerState, RefusesACountOfStepsThatIsNone) {
  for (const double count : {-1.0, 0.5, double{std::numeric_limits<float>::infinity()}}) {
    expect_refused([&](NamedTensors& state) { state.back().second.fill_(count); },
                   "tensor \"b.weight/step\": expected a count of steps, found");
  }
}

TEST(OptimizerState, RefusesTheStateOfAnotherOptimizer) {
  const TemporaryFolder folder;
  const OptimizerOptions rms_prop = {.kind = OptimizerKind::RmsProp};
  write_safetensors(folder / "state", Optimizer::make(parameters(), rms_prop)->state());
  const auto adamw = Optimizer::make(parameters(), {});
  expect_error([&] { adamw->load(TensorFile(folder / "state")); },
               "expected a tensor \"a.weight/exp_avg\", found none. Was the state saved with the "
               "same parameters and options?");
}

/// One of fewer elements than a world has processes, and one that is decayed for its dimensions.
/// Cut, a large one is still whole vectors: LibTorch's kernels round what is left over differently.
Optimizer::Parameters parameters_to_shard() {
  auto all = parameters();
  all[0].second = torch::randn({24, 32});
  all.emplace_back("ln_f.table", torch::randn({1, 2}));
  for (auto& [name, parameter] : all) {
    parameter = parameter.detach();
  }
  return all;
}

std::vector<at::Tensor> gradients(const Optimizer::Parameters& all, int step) {
  torch::manual_seed(static_cast<uint64_t>(step));
  std::vector<at::Tensor> grads;
  for (const auto& [name, parameter] : all) {
    grads.push_back(torch::randn_like(parameter));
  }
  return grads;
}

constexpr double kRate = 0.01;

void step_whole(Optimizer& optimizer, int step) {
  const auto grads = gradients(optimizer.parameters(), step);
  for (size_t i = 0; i < grads.size(); ++i) {
    optimizer.parameters()[i].second.mutable_grad() = grads[i];
  }
  optimizer.step(kRate);
}

/// Takes a step in a world whose processes have slices of `all`, from and to a saved state.
void step_in_world(int64_t size,
                   int step,
                   const Optimizer::Parameters& all,
                   const OptimizerOptions& options,
                   const std::filesystem::path& state) {
  const auto grads = gradients(all, step);
  run_in_world(size, [&](const World& world) {
    std::vector<TensorPart> parts;
    for (size_t i = 0; i < all.size(); ++i) {
      auto part = part_here(all[i].first, all[i].second, world);
      part.values.mutable_grad() = part_here("", grads[i], world).values;
      if (part.values.numel() > 0) {
        parts.push_back(part);
      }
    }
    const auto optimizer = Optimizer::make(parts, options);
    if (step > 0) {
      optimizer->load(TensorFile(state), world);
    }
    world.barrier("reading");
    optimizer->step(kRate);
    io::write_safetensors_distributed(world, state, optimizer->state_parts());
  });
}

TEST(OptimizerState, OfPartsGoesOnBitwiseInWorldsOfOtherSizes) {
  for (const auto& options : kElementwise) {
    SCOPED_TRACE(name_of(options.kind));
    const TemporaryFolder folder;
    const auto whole = Optimizer::make(parameters_to_shard(), options);
    const auto all = parameters_to_shard();
    int step = 0;
    for (const int64_t size : {4, 2, 3, 1}) {
      step_whole(*whole, step);
      step_in_world(size, step, all, options, folder / "parts");
      write_safetensors(folder / "whole", whole->state());
      EXPECT_TRUE(read_file(folder / "parts") == read_file(folder / "whole")) << size;
      expect_same(all, whole->parameters());
      ++step;
    }
  }
}

TEST(OptimizerState, RefusesInAllProcessesWhatOneOfThemMisses) {
  const TemporaryFolder folder;
  const auto all = parameters_to_shard();
  auto state = Optimizer::make(all, {})->state();
  const auto load = [&](const std::string& message) {
    write_safetensors(folder / "state", state);
    run_in_world(3, [&](const World& world) {
      auto parts = parts_here(all, world);
      std::erase_if(parts, [](const TensorPart& part) { return part.values.numel() == 0; });
      const auto optimizer = Optimizer::make(parts, {});
      const TensorFile file(folder / "state");
      expect_error([&] { optimizer->load(file, world); }, message);
    });
  };
  const auto last = state.back();
  state.pop_back();  // of a parameter that the third process has nothing of
  load("expected a tensor \"ln_f.table/step\", found none");
  state.push_back(last);
  state.emplace_back("more", torch::zeros(1));
  load("tensor \"more\" does not belong to this state");
}

}  // namespace
}  // namespace reprise::testing
