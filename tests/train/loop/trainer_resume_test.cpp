// A run that was stopped and goes on ends as if it had never stopped: all files of a later
// checkpoint and all metrics are the same.
#include "support/run_metrics.h"
#include "support/temporary_folder.h"
#include "train/collecting_observer.h"
#include "train/folder_files.h"
#include "train/training_case.h"

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

constexpr int64_t kTotal = 12;  // three epochs of four steps
constexpr int64_t kEnd = 10;    // where files are compared

struct ResumeCase {
  std::string name;
  std::string objective;
  std::function<void(Json& run)> change;
  std::function<void(TrainingCase&)> prepare = [](TrainingCase&) {};
};

void PrintTo(const ResumeCase& one, std::ostream* out) {
  *out << one.name;
}

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

Json run_of(const std::string& objective) {
  Json run = usual_run(objective, kTotal);
  run["arguments"]["gradient_accumulation_steps"] = 2;
  return run;
}

/// Trains a fresh copy until `step`, from the newest checkpoint if there is one.
fs::path train_until(const ResumeCase& one, int64_t step, const TemporaryFolder& folder) {
  Json run = run_of(one.objective);
  one.change(run);
  TrainingCase opened(one.objective, run, folder);
  one.prepare(opened);
  opened.resume_from = latest_checkpoint(opened.options.output);
  CollectingObserver observer;
  observer.stop_after = step;
  const auto summary = opened.train(observer);
  EXPECT_EQ(summary.end, TrainingEnd::Stopped);
  EXPECT_EQ(summary.progress.step, step);
  return opened.options.output;
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

const ResumeCase kPlain = {"Plain", "sft", [](Json&) {}};

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

class DamagedCheckpoint : public ::testing::Test {
 protected:
  void SetUp() override { checkpoint_ = train_until(kPlain, 2, folder_) / "checkpoint-2"; }

  std::string resume_error(const ResumeCase& as = kPlain) const {
    return error_of([&] { train_until(as, 4, folder_); });
  }
  void expect_named(const std::string& what) const {
    const std::string error = resume_error();
    EXPECT_NE(error.find(what), std::string::npos) << what << " in: " << error;
  }

  TemporaryFolder folder_;
  fs::path checkpoint_;
};

TEST_F(DamagedCheckpoint, SaysWhichFileIsMissing) {
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "rng.safetensors"}) {
    fs::rename(checkpoint_ / file, folder_ / "aside");
    expect_named(file);
    fs::rename(folder_ / "aside", checkpoint_ / file);
  }
  EXPECT_EQ(resume_error(), "");  // whole again
}

TEST_F(DamagedCheckpoint, SaysWhichFileIsCutShort) {
  for (const char* file :
       {"model.safetensors", "optimizer.safetensors", "rng.safetensors", "trainer_state.json"}) {
    const std::string bytes = read_file(checkpoint_ / file);
    write_file(checkpoint_ / file, std::string_view(bytes).substr(0, bytes.size() / 2));
    expect_named(file);
    write_file(checkpoint_ / file, bytes);
  }
}

TEST_F(DamagedCheckpoint, SaysWhichFieldIsWrong) {
  Json state = read_json(checkpoint_ / "trainer_state.json");
  for (const char* field : {"step", "tokens", "best_step", "evaluations_without_best"}) {
    Json changed = state;
    changed[field] = -1;
    write_json(checkpoint_ / "trainer_state.json", changed);
    expect_named(std::string(field) + ": expected a count");
  }
}

TEST_F(DamagedCheckpoint, OfGeneratorsThatAreNotOursIsRefused) {
  write_safetensors(checkpoint_ / "rng.safetensors", {{"cpu", torch::zeros({16}, torch::kByte)}});
  expect_named("rng.safetensors");
}

TEST_F(DamagedCheckpoint, OfAnotherKindOfRunIsRefused) {
  const ResumeCase adapters = {"", "sft", [](Json& run) { run["lora"] = Json::object(); }};
  EXPECT_NE(resume_error(adapters).find("adapter_model"), std::string::npos)
      << resume_error(adapters);
  const ResumeCase averaged = {
      "", "sft", [](Json&) {}, [](TrainingCase& one) { one.options.ema_decay = 0.9; }};
  EXPECT_NE(resume_error(averaged).find("ema.safetensors"), std::string::npos);
}

}  // namespace
}  // namespace reprise::testing
