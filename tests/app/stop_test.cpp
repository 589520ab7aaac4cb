// Ctrl-C during a run: the first is answered while the step still runs, a hasty second one repeats
// the answer, a later one ends the process. Steps wait for a reward that the test holds back.
#include "app/online_training.h"
#include "app/running.h"
#include "reprise/training/run/stop_presses.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using app::StopPresses;
using testing::read_text;
using testing::Running;
using testing::training_fixture;

class Stop : public testing::OnlineTraining {
 protected:
  /// grpo whose first step waits until go() is called.
  testing::Words command() const {
    const std::string script = "read line; touch " + path("asked") + "; while [ ! -e " +
                               path("go") + " ] && [ -d " + path("") +
                               " ]; do sleep 0.05; done; echo 1; while read line; do echo 1; done";
    return {"grpo",
            "--model",
            training_fixture("models/policy"),
            "--data",
            write("prompts.jsonl", kPrompts),
            "--output_dir",
            path("out"),
            "--device",
            "cpu",
            "--max_steps",
            "5",
            "--per_device_train_batch_size",
            "4",
            "--num_generations",
            "2",
            "--max_completion_length",
            "4",
            "--reward_command",
            script};
  }
  std::string log() const { return path("log"); }

  void wait_until_the_step_runs(Running& process) const {
    while (!process.has_ended() && !fs::exists(path("asked"))) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void wait_for(Running& process, const std::string& text) const {
    while (!process.has_ended() && read_text(log()).find(text) == std::string::npos) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_NE(read_text(log()).find(text), std::string::npos) << read_text(log());
  }
  void go() const { std::ofstream(path("go")).flush(); }
};

TEST_F(Stop, IsAnsweredWhileTheStepRunsAndSavesACheckpoint) {
  Running process(command(), log());
  wait_until_the_step_runs(process);
  process.kill(SIGINT);
  wait_for(process, "stopping after this step: a checkpoint is saved; press again");
  EXPECT_FALSE(process.has_ended());
  go();
  EXPECT_EQ(process.wait(), 0) << read_text(log());
  EXPECT_TRUE(fs::exists(path("out/checkpoint-1")));
  EXPECT_NE(read_text(log()).find("stopped after step 1"), std::string::npos);
}

TEST_F(Stop, ALaterSignalEndsTheProcess) {
  Running process(command(), log());
  wait_until_the_step_runs(process);
  process.kill(SIGINT);
  wait_for(process, "stopping after this step");
  std::this_thread::sleep_for(std::chrono::nanoseconds(StopPresses::kImpatience));
  process.kill(SIGINT);
  EXPECT_EQ(process.wait(), -1) << "not by the signal";
  EXPECT_NE(read_text(log()).find("stopped at once"), std::string::npos) << read_text(log());
  EXPECT_FALSE(fs::exists(path("out/checkpoint-1")));
}

TEST(StopPresses, OneWithinASecondRepeatsTheAnswer) {
  constexpr int64_t kSecond = StopPresses::kImpatience;
  StopPresses presses;
  EXPECT_FALSE(presses.is_stop_requested());
  EXPECT_EQ(presses.press(5 * kSecond), StopPresses::Answer::Stop);
  EXPECT_TRUE(presses.is_stop_requested());
  EXPECT_EQ(presses.press(5 * kSecond), StopPresses::Answer::Warn);
  EXPECT_EQ(presses.press(6 * kSecond - 1), StopPresses::Answer::Warn);
  EXPECT_EQ(presses.press(6 * kSecond), StopPresses::Answer::End);
}

}  // namespace
}  // namespace reprise
