// What a process keeps and takes of a sharded model: as predicted, and at 1/N of what one process
// would keep. One real process; the others are not there (dist/fake_world.h).
#include "dist/fake_world.h"
#include "parallel/strategies.h"
#include "plan/trace/meta_trace.h"
#include "support/fixtures.h"

#include <reprise/io/json.h>
#include <reprise/loss/next_token.h>
#include <reprise/memory.h>
#include <reprise/model/lora.h>
#include "parallel/shard_bytes.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace reprise {
namespace {

std::shared_ptr<Model> make_model(const std::string& family,
                                  c10::DeviceType device,
                                  at::ScalarType dtype = at::kFloat,
                                  bool has_lora = false) {
  const auto folder = testing::fixtures() / "models" / family;
  Json json = read_json(folder / "config.json");
  if (family.starts_with("llama")) {
    json["hidden_size"] = 128;
    json["intermediate_size"] = 384;
    json["num_hidden_layers"] = 6;
  }
  auto model = std::make_shared<Model>(
      ModelConfig::from_json(json, family), HeadKind::CausalLm, at::device(device).dtype(dtype));
  if (device != c10::kMeta) {
    model->initialize(/*seed=*/1);
  }
  if (has_lora) {
    LoraConfig config;
    config.rank = 3;
    add_lora(*model, config, /*seed=*/5);
  }
  return model;
}

void run_micro_batch(Model& model) {
  ModelInput input;
  input.input_ids = at::arange(8).view({1, 8});
  next_token_loss(model.forward(input), input.input_ids).backward();
}

void run_micro_batch(Model& model, ShardedModel& sharded, bool is_last) {
  sharded.begin_micro_batch(is_last);
  run_micro_batch(model);
  sharded.end_backward();
}

int64_t gradient_bytes(const ShardedModel& sharded) {
  std::set<const void*> seen;
  int64_t bytes = 0;
  for (const auto& part : sharded.trained()) {
    const auto& storage = part.values.grad().storage();
    bytes += seen.insert(storage.unsafeGetStorageImpl()).second
                 ? static_cast<int64_t>(storage.nbytes())
                 : 0;
  }
  return bytes;
}

using KeptBytesCase = std::tuple<std::string, at::ScalarType, bool>;  // family, type, LoRA

class ShardBytesTest : public ::testing::TestWithParam<KeptBytesCase> {};

TEST_P(ShardBytesTest, AreWhatAProcessKeeps) {
  const auto& [family, dtype, has_lora] = GetParam();
  for (const auto strategy : testing::kStrategies) {
    for (const auto& [rank, size] : {std::pair(0, 1), {0, 2}, {2, 3}, {1, 5}, {39, 40}}) {
      SCOPED_TRACE(c10::str(name_of(strategy), ", ", rank, " of ", size));
      const auto predicted = predict_shard_bytes(
          *make_model(family, c10::kMeta, dtype, has_lora),
          {.size = size, .rank = rank, .options = {.strategy = strategy}, .accumulation = 2});
      const FakeWorld world(rank, size);
      const auto model = make_model(family, c10::kCPU, dtype, has_lora);
      const auto sharded = reprise::shard(*model, world, {.strategy = strategy});
      run_micro_batch(*model, *sharded, /*is_last=*/false);
      run_micro_batch(*model, *sharded, /*is_last=*/true);
      EXPECT_EQ(predicted.parameters, sharded->bytes());
      EXPECT_EQ(predicted.gradients, gradient_bytes(*sharded));
      EXPECT_EQ(predicted.optimizer, Optimizer::make(sharded->trained(), {})->bytes());
    }
  }
}

TEST(ShardBytes, CountTheStateOfEveryOptimizer) {
  for (const std::string& name : optimizer_names()) {
    const OptimizerOptions options = {.kind = parse_optimizer(name)};
    for (const auto strategy : testing::kStrategies) {
      if (strategy != Parallel::Ddp && updates_whole_parameters(options.kind)) {
        continue;
      }
      for (const auto dtype : {at::kFloat, at::kBFloat16}) {
        SCOPED_TRACE(c10::str(name, ", ", name_of(strategy), ", ", dtype));
        const auto predicted = predict_shard_bytes(
            *make_model("llama", c10::kMeta, dtype),
            {.size = 3, .rank = 1, .options = {.strategy = strategy}, .optimizer = options});
        const FakeWorld world(1, 3);
        const auto model = make_model("llama", c10::kCPU, dtype);
        const auto sharded = reprise::shard(
            *model, world, {.strategy = strategy, .block_elements = block_elements(options.kind)});
        EXPECT_EQ(predicted.parameters, sharded->bytes());
        EXPECT_EQ(predicted.optimizer, Optimizer::make(sharded->trained(), options)->bytes());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All,
                         ShardBytesTest,
                         ::testing::Values(KeptBytesCase("llama", at::kFloat, false),
                                           KeptBytesCase("llama_untied", at::kBFloat16, false),
                                           KeptBytesCase("gpt2", at::kFloat, false),
                                           KeptBytesCase("qwen3", at::kBFloat16, true)));

/// A pass of a keeper without a model in it: what flows has no elements, so all bytes are its own.
class EmptyPass {
 public:
  explicit EmptyPass(Model& model)
      : sharded_parameters_(*model.sharded_parameters()),
        top_(static_cast<size_t>(model.config().layers) + 1),
        embeddings_(model.has_tied_head() ? top_ : 0),
        trained_(top_ + 1) {
    for (const auto& item : model.named_parameters()) {
      if (item.value().requires_grad()) {
        trained_[place_of(item.key(), model)].push_back(item.value());
      }
    }
  }

  at::Tensor forward() {
    sharded_parameters_.enter(0, {});
    auto x = at::zeros({0}, at::device(c10::kMeta)).requires_grad_();
    x = sharded_parameters_.leave(0, with_gradients(x, 0));
    for (size_t place = 1; place < top_; ++place) {
      x = sharded_parameters_.leave(place,
                                    with_gradients(sharded_parameters_.enter(place, x), place));
    }
    return with_gradients(sharded_parameters_.enter(top_, x), top_);
  }

 private:
  // Where its gradients come up first.
  size_t place_of(const std::string& name, const Model& model) const {
    for (size_t place = 1; place < top_; ++place) {
      if (name.starts_with(model.block_path(static_cast<int64_t>(place) - 1) + ".")) {
        return place;
      }
    }
    return name.find("embed") == std::string::npos ? top_ : embeddings_;
  }

  // Backward makes the gradients of a place here.
  at::Tensor with_gradients(const at::Tensor& x, size_t place) {
    auto y = x.clone();
    if (y.requires_grad()) {
      y.register_hook([this, place](const at::Tensor& gradient) {
        for (auto& parameter : trained_[place]) {
          if (!parameter.grad().defined()) {
            parameter.mutable_grad() = at::empty(parameter.sizes(), parameter.options());
          }
        }
        return gradient;
      });
    }
    return y;
  }

  ShardedParameters& sharded_parameters_;
  size_t top_, embeddings_;
  std::vector<std::vector<at::Tensor>> trained_;
};

using PassCase = std::tuple<std::string, Parallel, int64_t, bool>;  // family, strategy, N, LoRA

class ShardedPassTest : public ::testing::TestWithParam<PassCase> {};

TEST_P(ShardedPassTest, TakesWhatWasPredictedToTheByte) {
  DeviceProfile exact;
  exact.type = c10::kMeta;  // whose allocator rounds nothing
  const planning::MetaScope scope(exact);
  const auto& [family, strategy, size, has_lora] = GetParam();
  for (const auto& [prefetches, accumulation] : {std::pair(true, 1), {false, 1}, {true, 3}}) {
    const ShardPlacement place{.size = size,
                               .options = {.strategy = strategy, .prefetch = prefetches},
                               .accumulation = accumulation};
    const auto predicted =
        predict_shard_bytes(*make_model(family, c10::kMeta, at::kBFloat16, has_lora), place);
    const FakeWorld world(0, size);
    const auto model = make_model(family, c10::kMeta, at::kBFloat16, has_lora);
    const auto sharded = reprise::shard(*model, world, place.options);
    EmptyPass pass(*model);
    {
      const at::NoGradGuard no_grad;
      const PeakTracker tracker(c10::kMeta);
      pass.forward();
      sharded->settle();
      EXPECT_EQ(tracker.extra(), predicted.gathered);
    }
    // Held, so that all that comes and goes are gradients.
    const UnshardedParameters held(*model);
    const PeakTracker tracker(c10::kMeta);
    for (int64_t i = 1; i <= accumulation; ++i) {
      sharded->begin_micro_batch(/*is_last=*/i == accumulation);
      const auto y = pass.forward();
      torch::autograd::backward({y}, {at::zeros_like(y)});
      sharded->end_backward();
    }
    EXPECT_EQ(tracker.extra(), predicted.gradients + predicted.reductions);
  }
}

INSTANTIATE_TEST_SUITE_P(All,
                         ShardedPassTest,
                         ::testing::Values(PassCase("llama", Parallel::Fsdp, 1, false),
                                           PassCase("llama", Parallel::Fsdp, 3, false),
                                           PassCase("llama_untied", Parallel::Fsdp, 8, false),
                                           PassCase("llama_untied", Parallel::Fsdp, 2, true),
                                           PassCase("llama", Parallel::Zero2, 4, false),
                                           PassCase("llama_untied", Parallel::Zero2, 2, false),
                                           PassCase("llama", Parallel::Ddp, 2, false),
                                           PassCase("llama_untied", Parallel::Ddp, 2, true),
                                           PassCase("gpt2", Parallel::Fsdp, 2, false)));

/// Of whole training steps under fsdp, on the CPU.
struct StepBytes {
  int64_t kept = 0;
  int64_t peak = 0;
};

StepBytes bytes_of_steps(int64_t size, bool prefetches) {
  const int64_t before = live_bytes(c10::kCPU);
  const FakeWorld world(0, size);
  const auto model = make_model("llama_untied", c10::kCPU);
  model->enable_checkpointing();
  const auto sharded =
      reprise::shard(*model, world, {.strategy = Parallel::Fsdp, .prefetch = prefetches});
  const auto optimizer = Optimizer::make(sharded->trained(), {});
  StepBytes bytes;
  bytes.kept = live_bytes(c10::kCPU) - before;
  const PeakTracker tracker(c10::kCPU);
  for (int step = 0; step < 2; ++step) {
    run_micro_batch(*model, *sharded, /*is_last=*/false);
    run_micro_batch(*model, *sharded, /*is_last=*/true);
    optimizer->step(1e-4);
    sharded->after_update();
    optimizer->zero_grad();
    EXPECT_EQ(live_bytes(c10::kCPU) - before, bytes.kept) << "a step left something behind";
  }
  bytes.peak = tracker.peak() - before;
  return bytes;
}

double share(int64_t a, int64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

// Parameters, gradients and optimizer at 1/N, one gathered block, or two with prefetch.
TEST(BytesPerRank, ArePartsOfEverythingAndTheBlocksAtWork) {
  track_cpu_memory();
  const auto plain = make_model("llama_untied", c10::kCPU);
  plain->enable_checkpointing();
  const int64_t activations =
      planning::trace_step([&] { run_micro_batch(*plain); }, c10::kCPU).peak;
  const int64_t all = bytes_of_steps(1, /*prefetches=*/false).kept;
  for (const int64_t size : {1, 2, 4, 8}) {
    std::vector<StepBytes> measured;
    std::vector<int64_t> gathered;
    for (const bool prefetches : {false, true}) {
      SCOPED_TRACE(c10::str(size, prefetches ? " processes, prefetch" : " processes"));
      const auto predicted =
          predict_shard_bytes(*make_model("llama_untied", c10::kMeta),
                              {.size = size,
                               .options = {.strategy = Parallel::Fsdp, .prefetch = prefetches},
                               .accumulation = 2});
      const auto bytes = bytes_of_steps(size, prefetches);
      constexpr double kMalloc = 0.02;  // what it rounds
      EXPECT_NEAR(share(bytes.kept, predicted.kept()), 1, kMalloc);
      EXPECT_NEAR(share(bytes.kept * size, all), 1, kMalloc);
      const int64_t bound = predicted.kept() + predicted.gradients + predicted.reductions +
                            predicted.gathered + activations;
      EXPECT_LT(share(bytes.peak, bound), 1 + kMalloc);
      EXPECT_GT(share(bytes.peak, bound), 0.75) << "the bound is far from what is taken";
      measured.push_back(bytes);
      gathered.push_back(predicted.gathered);
    }
    const int64_t block = gathered[1] - gathered[0];
    EXPECT_NEAR(share(measured[1].peak - measured[0].peak, block), 1, 0.1)
        << size << ": one more block";
  }
}

TEST(PredictShardBytes, RefusesPlacesThatThereAreNot) {
  const auto predict = [](const ShardPlacement& place) {
    predict_shard_bytes(*make_model("llama", c10::kMeta), place);
  };
  EXPECT_THROW(predict({.size = 0}), c10::Error);
  EXPECT_THROW(predict({.size = 2, .rank = 2}), c10::Error);
  EXPECT_THROW(predict_shard_bytes(*make_model("llama", c10::kCPU), {}), c10::Error);
}

}  // namespace
}  // namespace reprise
