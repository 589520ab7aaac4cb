// A run that was stopped and goes on ends as if it had never stopped: all files of a later
// checkpoint and all metrics are the same.
#include "support/run_metrics.h"
#include "support/temporary_folder.h"
#include "train/collecting_observer.h"
#include "train/folder_files.h"
#include "train/loop/resume_case.h"

#include <reprise/io/file.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kEnd = 10;  // where files are compared

std::vector<ResumeCase> resume_cases() {
  const auto evaluate = [](TrainingCase& one) {
    one.options.eval_steps = 3;
    one.options.best_metric = "eval_loss";
  };
  return {
      {"SftWithDropout", "sft", [](Json& run) { run["attention_dropout"] = 0.2; }},
      {"SftCheckpointed",
       "sft",
       [](Json& run) { run["attention_dropout"] = 0.2; },
       [](TrainingCase& one) { one.model->enable_checkpointing(); }},
      {"SftWithNoiseOnEmbeddings",
       "sft",
       [](Json&) {},
       [](TrainingCase& one) { one.model->add_embedding_noise(5); }},
      {"SftWithAverage",
       "sft",
       [](Json&) {},
       [](TrainingCase& one) { one.options.ema_decay = 0.8; }},
      {"SftInBfloat16", "sft", [](Json& run) { run["dtype"] = "bfloat16"; }},
      {"SftWithAdapters",
       "sft",
       [](Json& run) {
         run["lora"] = {{"dropout", 0.2}};
       }},
      {"SftOnAQuantizedBase",
       "sft",
       [](Json& run) {
         run["quantize"] = "nf4";
         run["lora"] = {{"dropout", 0.2}};
       }},
      {"DpoWithAMovingReference",
       "dpo",
       [](Json& run) {
         run["arguments"].update({{"sync_ref_model", true},
                                  {"ref_model_sync_steps", 3},
                                  {"ref_model_mixup_alpha", 0.6}});
       }},
      {"DpoWithAdapters",
       "dpo",
       [](Json& run) {
         run["lora"] = Json::object();
         run.erase("reference");
       }},
      {"Kto", "kto", [](Json&) {}},
      {"RewardEvaluated", "reward", [](Json& run) { run["eval_data"] = "chat_pairs"; }, evaluate},
      {"KdEvaluated", "kd", [](Json& run) { run["eval_data"] = "sft_completion"; }, evaluate},
      {"Prm", "prm", [](Json&) {}}};
}

class Resume : public ::testing::TestWithParam<ResumeCase> {};

TEST_P(Resume, EndsAsIfItHadNeverStopped) {
  const TemporaryFolder whole_folder, parts_folder;
  const auto whole = train_until(GetParam(), kEnd, whole_folder);
  for (const int64_t stop : {int64_t{3}, int64_t{4}, kEnd}) {  // within an epoch, at its end
    train_until(GetParam(), stop, parts_folder);
  }
  const auto parts = parts_folder / "output";
  const auto expected = files_of(whole / "checkpoint-10");
  const auto found = files_of(parts / "checkpoint-10");
  EXPECT_GE(expected.size(), 4);  // weights, optimizer, generators, state
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, bytes] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_TRUE(found.at(name) == bytes) << name;
  }
  EXPECT_EQ(computed_metrics(parts), computed_metrics(whole));
}

INSTANTIATE_TEST_SUITE_P(Runs, Resume, ::testing::ValuesIn(resume_cases()), [](const auto& one) {
  return one.param.name;
});

TEST(Resumed, FromAnEarlierCheckpointMakesTheLaterOnesAgain) {
  const TemporaryFolder folder;
  train_until(kPlain, 3, folder);
  const auto output = train_until(kPlain, 6, folder);
  const auto expected = files_of(output / "checkpoint-6");
  const auto metrics = computed_metrics(output);

  TrainingCase again("sft", run_of("sft"), folder);
  again.resume_from = output / "checkpoint-3" / "";  // as a shell completes it
  CollectingObserver observer;
  observer.stop_after = 6;
  observer.between_steps = [&](int64_t step) {
    EXPECT_EQ(fs::exists(output / "checkpoint-6"), false) << "at step " << step;
  };
  again.train(observer);
  EXPECT_EQ(observer.start.step, 3);
  EXPECT_EQ(files_of(output / "checkpoint-6"), expected);
  EXPECT_EQ(computed_metrics(output), metrics);
}

TEST(Resumed, AFreshRunDoesNotGoIntoTheFolderOfAnother) {
  const TemporaryFolder folder;
  const auto output = train_until(kPlain, 2, folder);
  TrainingCase fresh("sft", run_of("sft"), folder);
  CollectingObserver observer;
  expect_error([&] { fresh.train(observer); }, "has checkpoints of another run");
  EXPECT_TRUE(fs::exists(output / "checkpoint-2" / "model.safetensors"));
}

TEST(Resumed, NeverFromWhatIsHalfWritten) {
  const TemporaryFolder folder;
  const auto output = train_until(kPlain, 2, folder);
  fs::create_directories(output / "checkpoint-9.partial-1");
  write_file(output / "checkpoint-9.partial-1" / "trainer_state.json", "{}");
  fs::create_directories(output / "checkpoint-8");  // not ours: no state
  fs::create_directories(output / "checkpoint-7x");
  EXPECT_EQ(latest_checkpoint(output), output / "checkpoint-2");
  train_until(kPlain, 3, folder);
  EXPECT_FALSE(fs::exists(output / "checkpoint-9.partial-1"));
  EXPECT_EQ(latest_checkpoint(output), output / "checkpoint-3");
  EXPECT_EQ(latest_checkpoint(folder / "nowhere"), fs::path());
}

}  // namespace
}  // namespace reprise::testing
