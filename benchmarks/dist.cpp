// The cost of an optimizer step in one of several processes. Does the same work as dist_peer.py,
// which documents what is measured. Each process prints one JSON object; dist_compare.py runs both
// programs in alternation.
#include "peak_growth.h"

#include <reprise/dist/connect.h>
#include <reprise/io/json.h>
#include <reprise/loss/head.h>
#include <reprise/memory.h>
#include <reprise/model/amx_guard.h>
#include <reprise/model/pretrained.h>
#include <reprise/optim/optimizer.h>
#include <reprise/parallel/shard.h>

#include <torch/torch.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <ctime>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace {

using reprise::Json;

constexpr double kLearningRate = 1e-4;
constexpr double kMaxNorm = 1.0;

struct Options {
  std::string folder;
  std::string strategy;
  int64_t batch = 4;
  int64_t tokens = 256;
  int64_t warmup = 2;
  int64_t steps = 5;
  bool checkpoints = false;
};

/// Trains a model on the same rows in every step.
class Training {
 public:
  Training(const Options& options, const reprise::World& world)
      : world_(world), model_(reprise::load_model(options.folder).model) {
    model_->train();
    if (options.checkpoints) {
      model_->enable_checkpointing();
    }
    const auto count = torch::arange(options.batch * options.tokens, torch::kLong) +
                       world.rank() * options.batch * options.tokens;
    input_.input_ids =
        ((count * 7919 + 13) % model_->config().vocabulary).view({options.batch, options.tokens});
    targets_ = torch::full_like(input_.input_ids, reprise::kIgnoredLabel);
    targets_.slice(1, 0, -1).copy_(input_.input_ids.slice(1, 1));
    sharded_ =
        reprise::shard(*model_, world, {.strategy = reprise::parallel_named(options.strategy)});
    optimizer_ = reprise::Optimizer::make(sharded_->trained(), {});
  }

  /// The mean loss of this process's rows.
  double step() {
    sharded_->begin_micro_batch(/*is_last=*/true);
    const auto loss = reprise::linear_cross_entropy(
        model_->hidden_states(input_), model_->linear_head(), targets_);
    const auto tokens = static_cast<double>(loss.tokens);
    (loss.sum / (tokens * static_cast<double>(world_.size()))).backward();
    sharded_->end_backward();
    // Under ddp, gradients are the same in all processes, and so is their norm.
    reprise::clip_grad_norm(optimizer_->parameters(),
                            kMaxNorm,
                            sharded_->is_sharded() ? world_ : reprise::World::single());
    optimizer_->step(kLearningRate);
    optimizer_->zero_grad();
    sharded_->after_update();
    return loss.sum.item<double>() / tokens;
  }

  /// Parameters, gradients and optimizer state. Gradients are freed between steps; they are as
  /// large as what is trained.
  int64_t state_bytes() const {
    int64_t gradients = 0;
    for (const auto& part : sharded_->trained()) {
      gradients += static_cast<int64_t>(part.values.nbytes());
    }
    return sharded_->bytes() + gradients + optimizer_->bytes();
  }

 private:
  const reprise::World& world_;
  std::shared_ptr<reprise::Model> model_;
  reprise::ModelInput input_;
  at::Tensor targets_;
  std::shared_ptr<reprise::ShardedModel> sharded_;
  std::unique_ptr<reprise::Optimizer> optimizer_;
};

Json run(const Options& options) {
  const auto rendezvous = reprise::rendezvous_from_environment();
  TORCH_CHECK(rendezvous.has_value(),
              "[bench_dist] RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are not set; "
              "script/bench dist sets them.");
  const auto world = reprise::connect_world(*rendezvous, {});
  const PeakGrowth peak;
  Training training(options, *world);
  for (int64_t i = 0; i < options.warmup; ++i) {
    training.step();
  }
  PeakGrowth::forget();
  std::vector<double> times, processor, losses;
  for (int64_t i = 0; i < options.steps; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto processor_start = std::clock();
    losses.push_back(training.step());
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    times.push_back(time.count());
    processor.push_back(static_cast<double>(std::clock() - processor_start) * 1e3 / CLOCKS_PER_SEC);
  }
  return {{"ms", times},
          {"processor_ms", processor},
          {"loss", losses},
          {"state_bytes", training.state_bytes()},
          {"peak_bytes", peak.bytes()}};
}

}  // namespace

int main(int argc, char** argv) {
  reprise::guard_against_faulting_amx();
  reprise::track_cpu_memory();  // as the trainers do
  CLI::App app{"Cost of an optimizer step in one process of several."};
  Options options;
  app.add_option("folder", options.folder, "A model")->required();
  app.add_option("--strategy", options.strategy, "ddp, zero2 or fsdp")->required();
  app.add_flag("--checkpoint", options.checkpoints, "Recompute every block");
  app.add_option("--batch", options.batch);
  app.add_option("--tokens", options.tokens);
  app.add_option("--warmup", options.warmup, "Steps before the first that is measured");
  app.add_option("--steps", options.steps);
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(1);
  try {
    std::cout << run(options).dump() << "\n";
  } catch (const c10::Error& error) {
    std::cerr << "bench_dist: " << error.what_without_backtrace() << "\n";
    return 1;
  }
}
