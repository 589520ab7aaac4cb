// Checkpoints of runs in several processes: one folder of the usual format that all of them wrote,
// from which as many, or more, go on.
#include "support/temporary_folder.h"
#include "support/thread_world.h"
#include "train/collecting_observer.h"
#include "train/training_case.h"

#include <reprise/io/file.h>
#include <reprise/parallel/shard.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

namespace fs = std::filesystem;

struct WorldRun {
  Parallel strategy = Parallel::Fsdp;
  int64_t size = 2;
  fs::path resume_from = {};
  fs::path output;
  std::function<void(int64_t rank, TrainingCase&, CollectingObserver&)> prepare = {};
};

/// Four steps, with a checkpoint after every second.
std::vector<TrainingSummary> train_in_world(const TemporaryFolder& folder, const WorldRun& run) {
  std::vector<TrainingSummary> summaries(static_cast<size_t>(run.size));
  TrainingCase("sft", usual_run("sft", 4), folder);  // the data set's cache, made by one
  run_in_world(run.size, [&](const World& world) {
    TrainingCase one("sft", usual_run("sft", 4), folder);
    CollectingObserver observer;
    one.options.output = run.output;
    one.options.save_steps = 2;
    one.options.ema_decay = 0.8;
    if (run.prepare) {
      run.prepare(world.rank(), one, observer);
    }
    shard(*one.model, world, {.strategy = run.strategy});
    summaries[static_cast<size_t>(world.rank())] =
        reprise::train({*one.objective,
                        one.data,
                        nullptr,
                        [&](const auto& path) { one.save(path); },
                        run.resume_from},
                       one.options,
                       observer,
                       world);
  });
  return summaries;
}

void expect_same_checkpoints(const fs::path& a, const fs::path& b) {
  for (const char* name : {"model.safetensors",
                           "config.json",
                           "optimizer.safetensors",
                           "ema.safetensors",
                           "trainer_state.json"}) {
    EXPECT_TRUE(read_file(a / name) == read_file(b / name)) << name;
  }
}

TEST(WorldCheckpoints, ARunThatGoesOnIsTheSameRun) {
  for (const auto strategy : {Parallel::Ddp, Parallel::Zero2, Parallel::Fsdp}) {
    SCOPED_TRACE(name_of(strategy));
    const TemporaryFolder folder;
    train_in_world(folder, {.strategy = strategy, .output = folder / "straight"});
    fs::create_directories(folder / "resumed");
    fs::copy(folder / "straight/checkpoint-2",
             folder / "resumed/checkpoint-2",
             fs::copy_options::recursive);
    train_in_world(folder,
                   {.strategy = strategy,
                    .resume_from = folder / "resumed/checkpoint-2",
                    .output = folder / "resumed"});
    expect_same_checkpoints(folder / "straight/checkpoint-4", folder / "resumed/checkpoint-4");
    expect_same_checkpoints(folder / "straight/checkpoint-2", folder / "resumed/checkpoint-2");
    EXPECT_TRUE(read_file(folder / "straight/ema/model.safetensors") ==
                read_file(folder / "resumed/ema/model.safetensors"));
  }
}

TEST(WorldCheckpoints, AnyNumberOfProcessesGoesOn) {
  const TemporaryFolder folder;
  train_in_world(folder, {.size = 3, .output = folder / "output"});
  const auto checkpoint = folder / "output/checkpoint-2";
  EXPECT_EQ(read_json(checkpoint / "trainer_state.json")["world_size"], 3);
  const TensorFile rng(checkpoint / "rng.safetensors");
  EXPECT_TRUE(rng.find("cpu") != nullptr && rng.find("cpu.1") != nullptr &&
              rng.find("cpu.2") != nullptr);
  for (const int64_t size : {1, 2, 4}) {
    const auto summaries = train_in_world(
        folder, {.size = size, .resume_from = checkpoint, .output = folder / std::to_string(size)});
    for (const auto& summary : summaries) {
      EXPECT_EQ(summary.progress.step, 4);
    }
    EXPECT_TRUE(fs::exists(folder / (std::to_string(size) + "/checkpoint-4")));
  }
}

TEST(WorldCheckpoints, ASignalToOneProcessStopsAll) {
  const TemporaryFolder folder;
  const auto summaries = train_in_world(
      folder, {.output = folder / "output", .prepare = [](int64_t rank, auto&, auto& observer) {
                 observer.stop_after = rank == 1 ? 1 : -1;
               }});
  for (const auto& summary : summaries) {
    EXPECT_EQ(summary.end, TrainingEnd::Stopped);
    EXPECT_EQ(summary.progress.step, 1);
  }
  EXPECT_TRUE(fs::exists(folder / "output/checkpoint-1/trainer_state.json"));
}

TEST(WorldCheckpoints, WhatOneProcessCannotWriteEndsTheRunOfAll) {
  const TemporaryFolder folder;
  const auto run = [&] {
    train_in_world(
        folder, {.output = folder / "output", .prepare = [](int64_t rank, auto&, auto& observer) {
                   if (rank == 1) {
                     observer.between_steps = [](int64_t) { TORCH_CHECK(false, "disk full"); };
                   }
                 }});
  };
  expect_error(run, "disk full");
  EXPECT_FALSE(fs::exists(folder / "output/checkpoint-2"));
}

}  // namespace
}  // namespace reprise::testing
