// A world over NCCL, of one process: the real backend, streams and memory of a GPU.
#include "parallel/grid_case.h"
#include "parallel/strategies.h"
#include "support/bitwise.h"
#include "support/devices.h"
#include "support/parity.h"
#include "support/processes.h"

#include <reprise/dist/connect.h>
#include <reprise/memory.h>

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

class Nccl : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_cuda()) {
      GTEST_SKIP() << "no GPU";
    }
    world_ = connect_world({.rank = 0, .size = 1, .address = "127.0.0.1", .port = free_port()},
                           {.device = at::Device(at::kCUDA, 0)});
  }

  std::unique_ptr<World> world_;
};

TEST_F(Nccl, Collectives) {
  const auto options = at::TensorOptions(at::kFloat).device(at::kCUDA, 0);
  const auto values = at::arange(8, options);
  EXPECT_TRUE(at::equal(world_->sum(values), values));
  const auto whole = at::zeros({8}, options);
  world_->start_all_gather(whole, values, "a gather")->wait();
  EXPECT_TRUE(at::equal(whole, values));
  const auto part = at::zeros({8}, options);
  world_->start_reduce_scatter(part, values, "a reduction")->wait();
  EXPECT_TRUE(at::equal(part, values));
}

std::shared_ptr<Model> open_untied_llama(bool is_mapped, at::ScalarType dtype) {
  LoadOptions load;
  load.mapped = is_mapped;
  if (!is_mapped) {
    load.device = at::Device(at::kCUDA, 0);
    load.dtype = dtype;
  }
  return load_model(fixtures() / "models" / "llama_untied", load).model;
}

std::map<std::string, at::Tensor> gradients_of(Model& model, ShardedModel* sharded) {
  if (sharded != nullptr) {
    sharded->begin_micro_batch(/*is_last=*/true);
  }
  ModelInput input;
  input.input_ids = Expected(fixtures() / "models" / "llama_untied")["input_ids"].to(at::kCUDA);
  model.forward(input).to(at::kFloat).square().mean().backward();
  std::map<std::string, at::Tensor> gradients;
  if (sharded == nullptr) {
    for (const auto& [name, parameter] : trained_parameters(model)) {
      gradients[name] = parameter.grad().flatten().to(at::kCPU, at::kFloat);
    }
    return gradients;
  }
  sharded->end_backward();
  for (const auto& part : sharded->trained()) {
    gradients[part.name] = part.values.grad().to(at::kCPU, at::kFloat);
  }
  return gradients;
}

TEST_F(Nccl, GradientsAreThoseOfOneProcess) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const auto plain = open_untied_llama(/*is_mapped=*/false, dtype);
    const auto expected = gradients_of(*plain, nullptr);
    for (const auto strategy : kStrategies) {
      for (const char* policy : {"none", "full"}) {
        for (const bool is_offloaded : {false, true}) {
          if (is_offloaded && strategy != Parallel::Fsdp) {
            continue;
          }
          const bool is_mapped = strategy == Parallel::Fsdp;
          const auto model = open_untied_llama(is_mapped, dtype);
          ShardOptions options{.strategy = strategy, .cpu_offload = is_offloaded};
          if (is_mapped) {
            options.device = at::Device(at::kCUDA, 0);
            options.dtype = dtype;
          }
          const auto sharded = reprise::shard(*model, *world_, options);
          apply_policy(*model, policy);
          const auto found = gradients_of(*model, sharded.get());
          ASSERT_EQ(found.size(), expected.size());
          for (const auto& [name, gradient] : expected) {
            EXPECT_TRUE(at::equal(found.at(name), gradient))
                << name_of(strategy) << " " << policy << " " << name;
          }
        }
      }
    }
  }
}

TEST_F(Nccl, ParametersTakeNoMemoryBetweenPasses) {
  const auto device = at::Device(at::kCUDA, 0);
  const auto before = live_bytes(device);
  const auto model = open_untied_llama(/*is_mapped=*/true, at::kFloat);
  EXPECT_EQ(live_bytes(device), before);
  ShardOptions options{.strategy = Parallel::Fsdp, .cpu_offload = true};
  options.device = device;
  const auto sharded = reprise::shard(*model, *world_, options);
  EXPECT_EQ(live_bytes(device), before) << "parts are in main memory";
  gradients_of(*model, sharded.get());
  EXPECT_LE(live_bytes(device), before + (int64_t{64} << 10));
}

}  // namespace
}  // namespace reprise::testing
