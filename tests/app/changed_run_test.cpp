// Runs that are resumed with another length or learning rate.
#include "app/training.h"

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::read_text;
using testing::run_program;
using testing::training_fixture;
using testing::Words;

class ChangedRun : public testing::Training {
 protected:
  /// sft into a folder, with checkpoints.
  testing::ProgramResult run(const std::string& output, const Words& more) const {
    Words words{"sft",
                "--model",
                training_fixture("models/policy"),
                "--data",
                training_fixture("data/sft_text.jsonl"),
                "--cache_dir",
                path("cache"),
                "--device",
                "cpu",
                "--per_device_train_batch_size",
                "4",
                "--output_dir",
                path(output)};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  }

  testing::ProgramResult resume(const std::string& output, Words more) const {
    more.insert(more.end(), {"--resume_from_checkpoint", "auto"});
    return run(output, more);
  }

  std::vector<Json> column(const std::string& output, const char* name) const {
    std::vector<Json> values;
    for (const Json& record : MetricsFile::read(fs::path(path(output)) / "metrics.jsonl")) {
      values.push_back(record.at(name));
    }
    return values;
  }
};

TEST_F(ChangedRun, GoesOnLongerAsIfItHadBeenThatLongFromTheStart) {
  const Words constant{"--lr_scheduler_type", "constant", "--learning_rate", "1e-3"};
  const auto with = [&](Words words) {
    words.insert(words.end(), constant.begin(), constant.end());
    return words;
  };
  ASSERT_EQ(run("short", with({"--num_train_epochs", "1"})).exit_code, 0);
  ASSERT_EQ(run("long", with({"--num_train_epochs", "2"})).exit_code, 0);
  const auto refused = resume("short", with({"--num_train_epochs", "2"}));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(contains(refused.err, "--num_train_epochs: was 1.0, now 2.0")) << refused.err;
  EXPECT_TRUE(contains(refused.err, "add --allow_changes to go on with these")) << refused.err;
  const auto longer = resume("short", with({"--num_train_epochs", "2", "--allow_changes"}));
  ASSERT_EQ(longer.exit_code, 0) << longer.err;
  EXPECT_TRUE(contains(longer.err, "changed: --num_train_epochs: was 1.0, now 2.0 (after step 7)"))
      << longer.err;
  EXPECT_EQ(read_text(path("short/model.safetensors")), read_text(path("long/model.safetensors")));
  EXPECT_EQ(column("short", "loss"), column("long", "loss"));
}

TEST_F(ChangedRun, HasTheScheduleOfItsNewLengthFromThereOn) {
  ASSERT_EQ(run("out", {"--max_steps", "3"}).exit_code, 0);
  ASSERT_EQ(run("whole", {"--max_steps", "6"}).exit_code, 0);
  const auto before = column("out", "learning_rate");
  ASSERT_EQ(resume("out", {"--max_steps", "6", "--allow_changes"}).exit_code, 0);
  const auto rates = column("out", "learning_rate");
  const auto whole = column("whole", "learning_rate");
  ASSERT_EQ(rates.size(), 6U);
  for (size_t step = 0; step < 6; ++step) {
    EXPECT_EQ(rates[step], step < 3 ? before[step] : whole[step]) << step;
  }
}

TEST_F(ChangedRun, IsRecordedWithWhatChanged) {
  ASSERT_EQ(run("out", {"--max_steps", "3", "--learning_rate", "1e-3"}).exit_code, 0);
  const Words changed{"--max_steps", "5", "--learning_rate", "1e-4"};
  Words allowed = changed;
  allowed.emplace_back("--allow_changes");
  ASSERT_EQ(resume("out", allowed).exit_code, 0);
  const Json state = read_json(path("out/checkpoint-5/trainer_state.json"));
  const Json changes = state["configuration"]["changes"];
  ASSERT_EQ(changes.size(), 2U) << changes;
  EXPECT_EQ(changes[1],
            (Json{{"step", 3}, {"setting", "learning_rate"}, {"from", 1e-3}, {"to", 1e-4}}));
  const std::string line = "--learning_rate: was 0.001, now 0.0001 (after step 3)";
  EXPECT_TRUE(contains(read_text(path("out/training.yaml")), "# changed: " + line));
  EXPECT_TRUE(contains(read_text(path("out/report.html")), "was 0.001, now 0.0001"));
  // The new settings are those of the run now.
  EXPECT_EQ(resume("out", changed).exit_code, 0);
  EXPECT_EQ(run_program(
                {"sft", "--config", path("out/training.yaml"), "--resume_from_checkpoint", "auto"})
                .exit_code,
            0);
}

TEST_F(ChangedRun, IsRefusedForWhatAnOptimizerOrDataDependOn) {
  ASSERT_EQ(run("out", {"--max_steps", "3"}).exit_code, 0);
  const auto seed = resume("out", {"--max_steps", "3", "--seed", "1", "--allow_changes"});
  EXPECT_EQ(seed.exit_code, 1);
  EXPECT_TRUE(contains(seed.err, "--seed: was 42, now 1")) << seed.err;
  EXPECT_FALSE(contains(seed.err, "add --allow_changes")) << seed.err;
  const auto shorter = resume("out", {"--max_steps", "2", "--allow_changes"});
  EXPECT_EQ(shorter.exit_code, 1);
  EXPECT_TRUE(contains(shorter.err, "after step 3, but this run has 2 steps")) << shorter.err;
  const auto alone = run("new", {"--max_steps", "2", "--allow_changes"});
  EXPECT_TRUE(contains(alone.err, "--allow_changes has no effect without --resume_from_checkpoint"))
      << alone.err;
}

}  // namespace
}  // namespace reprise
