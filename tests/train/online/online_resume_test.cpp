// A run of online training that was stopped and goes on ends as if it had never stopped, also in
// the middle of a generation batch.
#include "io/checksums.h"
#include "support/run_metrics.h"
#include "support/temporary_folder.h"
#include "train/collecting_observer.h"
#include "train/folder_files.h"
#include "train/online/online_case.h"

#include <reprise/io/file.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

namespace reprise::testing {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kEnd = 7;

void train_until(OnlineEstimator estimator, int64_t step, const TemporaryFolder& folder) {
  OnlineCase one(estimator);
  one.options.training.max_steps = 9;
  one.options.iterations = 2;
  one.options.micro_batches_per_generation = 4;  // four steps a generation batch
  if (estimator == OnlineEstimator::Gae) {
    one.add_reference_in_reward(0.05);
    one.options.kl_target = 0.01;
    one.options.kl_horizon = 50;
  } else {
    one.options.filter_groups = true;
    one.options.filter_attempts = 2;
  }
  one.resume_from = latest_checkpoint(folder / "output");
  CollectingObserver observer;
  observer.stop_after = step;
  const auto summary = one.train(observer, folder / "output");
  EXPECT_EQ(summary.end, TrainingEnd::Stopped);
  EXPECT_EQ(summary.progress.step, step);
}

class OnlineResume : public ::testing::TestWithParam<OnlineEstimator> {};

TEST_P(OnlineResume, EndsAsIfItHadNeverStopped) {
  const TemporaryFolder whole, parts;
  train_until(GetParam(), kEnd, whole);
  for (const int64_t stop : {int64_t{1}, int64_t{4}, int64_t{6}, kEnd}) {
    train_until(GetParam(), stop, parts);
  }
  const auto expected = files_of(whole / "output" / "checkpoint-7");
  const auto found = files_of(parts / "output" / "checkpoint-7");
  EXPECT_EQ(expected.contains("critic/optimizer.safetensors"), GetParam() == OnlineEstimator::Gae);
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, bytes] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_TRUE(found.at(name) == bytes) << name;
  }
  EXPECT_EQ(computed_metrics(parts / "output"), computed_metrics(whole / "output"));
  EXPECT_EQ(read_file(parts / "output" / "samples.jsonl"),
            read_file(whole / "output" / "samples.jsonl"));
}

INSTANTIATE_TEST_SUITE_P(Estimators,
                         OnlineResume,
                         ::testing::Values(OnlineEstimator::Gae, OnlineEstimator::Grpo));

TEST(OnlineResumed, ADamagedGenerationBatchIsRefusedByName) {
  const TemporaryFolder folder;
  train_until(OnlineEstimator::Grpo, 1, folder);
  const auto file = folder / "output" / "checkpoint-1" / "objective.safetensors";
  NamedTensors tensors;
  {
    const TensorFile saved(file);
    for (const auto& info : saved.tensors()) {
      auto tensor = saved.view(info).clone();
      tensors.emplace_back(info.name, info.name == "experience/lengths" ? tensor + 1000 : tensor);
    }
  }
  write_safetensors(file, tensors);
  io::write_checksums(file.parent_path());
  expect_error([&] { train_until(OnlineEstimator::Grpo, 2, folder); },
               "objective.safetensors: the tensors of its generation batch do not match");
}

}  // namespace
}  // namespace reprise::testing
