// Training that is killed, at any moment, and told to go on: the weights are to the last byte those
// of a run that nobody disturbed, and the metrics the same but for times and bytes. REPRISE_KILLS
// sets the number of kills of each objective.
#include "app/commands.h"
#include "app/running.h"
#include "app/small_run.h"

#include <chrono>
#include <cstdlib>
#include <functional>
#include <random>
#include <thread>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::is_saving;
using testing::Running;
using testing::TemporaryFolder;

int kills_of(const std::string& objective) {
  const char* wanted = std::getenv("REPRISE_KILLS");
  return wanted != nullptr ? std::atoi(wanted) : objective == "sft" ? 20 : 2;
}

class ResumedRun : public ::testing::Test {
 protected:
  std::vector<std::string> command(const fs::path& output) const {
    auto words = testing::small_run(objective_, output, folder_.path());
    words.insert(words.end(), more_flags_.begin(), more_flags_.end());
    return words;
  }

  void expect_same_as_undisturbed(const fs::path& output) const {
    testing::expect_same_run(output, folder_.path() / "whole");
  }

  fs::path log() const { return folder_.path() / "log"; }
  void run_undisturbed() const {
    Running whole(command(folder_.path() / "whole"), log());
    ASSERT_EQ(whole.wait(), 0) << testing::read_text(log());
  }

  std::string objective_ = "sft";
  std::vector<std::string> more_flags_;
  TemporaryFolder folder_;
};

class KillAndResume : public ResumedRun, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { objective_ = GetParam(); }
};

TEST_P(KillAndResume, EndsWithTheSameBytes) {
  const int wanted = kills_of(GetParam());
  const auto start = std::chrono::steady_clock::now();
  run_undisturbed();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> moment(0, time.count());
  int kills = 0;
  int kills_while_saving = 0;
  int runs = 0;
  while (kills < wanted) {
    const fs::path output = folder_.path() / ("run" + std::to_string(runs++));
    bool is_done = false;
    while (!is_done) {
      Running process(command(output), log());
      // Every third waits for a checkpoint to be half-written, however slow the machine is.
      const bool waits_for_save = kills % 3 == 2;
      const bool waits_for_moment = kills < wanted && !waits_for_save;
      const auto end = std::chrono::steady_clock::now() +
                       std::chrono::duration<double>(waits_for_moment ? moment(random) : 1e3);
      while (!process.has_ended() && std::chrono::steady_clock::now() < end &&
             !(waits_for_save && kills < wanted && is_saving(output))) {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
      if (process.has_ended()) {
        ASSERT_EQ(process.wait(), 0) << testing::read_text(log());
        is_done = true;
      } else {
        kills_while_saving += is_saving(output) ? 1 : 0;
        process.kill(SIGKILL);
        process.wait();
        ++kills;
      }
    }
    expect_same_as_undisturbed(output);
  }
  EXPECT_GE(kills, wanted);
  EXPECT_TRUE(wanted < 20 || kills_while_saving > 0);
  RecordProperty("kills", kills);
  RecordProperty("kills_while_saving", kills_while_saving);
}

TEST_F(ResumedRun, StopsCleanlyWhenAskedTo) {
  run_undisturbed();
  const fs::path output = folder_.path() / "asked";
  {
    Running process(command(output), log());
    while (!process.has_ended() && !fs::exists(output / "checkpoint-2")) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    process.kill(SIGTERM);
    EXPECT_EQ(process.wait(), 0) << testing::read_text(log());
  }
  EXPECT_NE(testing::read_text(log()).find("--resume_from_checkpoint auto"), std::string::npos);
  EXPECT_FALSE(fs::exists(output / "model.safetensors"));
  Running again(command(output), log());
  ASSERT_EQ(again.wait(), 0) << testing::read_text(log());
  expect_same_as_undisturbed(output);
}

/// Killed while everything is on the host, at any moment of an update, and between places.
TEST_F(ResumedRun, EndsWithTheSameBytesWhereverItsStateIs) {
  run_undisturbed();
  ::setenv("REPRISE_CPU_TIERS", "1", /*replace=*/1);
  const fs::path output = folder_.path() / "offloaded";
  for (const int64_t until : {3, 6, 9}) {
    more_flags_ = until == 6
                      ? std::vector<std::string>{"--gradient_offload"}
                      : std::vector<std::string>{"--optimizer_offload", "--gradient_offload"};
    Running process(command(output), log());
    while (!process.has_ended() && !fs::exists(output / ("checkpoint-" + std::to_string(until)))) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    process.kill(SIGKILL);
    process.wait();
  }
  Running last(command(output), log());
  ASSERT_EQ(last.wait(), 0) << testing::read_text(log());
  ::unsetenv("REPRISE_CPU_TIERS");
  expect_same_as_undisturbed(output);
}

INSTANTIATE_TEST_SUITE_P(Objectives,
                         KillAndResume,
                         ::testing::Values("sft", "rm", "prm", "dpo", "kto", "kd", "grpo", "ppo"),
                         [](const auto& objective) { return objective.param; });

}  // namespace
}  // namespace reprise
