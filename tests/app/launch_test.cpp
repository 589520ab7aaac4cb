// `reprise launch`: who prints what, who ends when, and what is left. The processes are shell
// scripts here, which know their rank as the program's would.
#include "app/commands.h"
#include "reprise/launch/restart.h"
#include "reprise/launch/separator.h"
#include "reprise/launch/worker_group.h"
#include "reprise/launch/world_environment.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace reprise::app {
namespace {

using testing::read_text;
using testing::run_program;
using testing::TemporaryFolder;
using namespace std::chrono_literals;
using Words = std::vector<std::string>;

// Waiting on files, not on time: a busy machine may take seconds to start a shell.
const std::string kAllReady =
    "while [ ! -e ready0 ] || [ ! -e ready1 ] || [ ! -e ready2 ]; do sleep 0.02; done; ";
/// A minute, in sleeps short enough that traps run soon.
const std::string kLinger = "for i in $(seq 1200); do sleep 0.05; done";

/// While it lives, a stream of this process goes to a file.
class Redirected {
 public:
  Redirected(int stream, const std::string& file) : stream_(stream), before_(::dup(stream)) {
    const int end = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    ::dup2(end, stream);
    ::close(end);
  }
  ~Redirected() {
    ::dup2(before_, stream_);
    ::close(before_);
  }
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;

 private:
  int stream_, before_;
};

class Launch : public ::testing::Test {
 protected:
  /// Runs a script in so many processes; out_ and err_ are then what was printed.
  GroupEnd run(int64_t processes,
               const std::string& script,
               std::chrono::milliseconds grace = 10s) {
    const LocalWorld world{processes, 1, 0, "127.0.0.1", 1234};
    std::vector<WorkerCommand> commands;
    for (int64_t i = 0; i < processes; ++i) {
      commands.push_back({{"/bin/sh", "-c", "cd '" + folder_.path().string() + "'; " + script},
                          environment_of(world, i)});
    }
    GroupEnd end;
    {
      const Redirected out(STDOUT_FILENO, path("out"));
      const Redirected err(STDERR_FILENO, path("err"));
      const SignalInbox inbox;
      end = run_group(commands, 0, grace, inbox);
    }
    out_ = read_text(path("out"));
    err_ = read_text(path("err"));
    return end;
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  bool is_there(const std::string& name) const {
    return std::filesystem::exists(folder_.path() / name);
  }

  TemporaryFolder folder_;
  std::string out_, err_;
};

TEST_F(Launch, TellsEachProcessWhoItIs) {
  const auto end = run(2,
                       "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE "
                       "$MASTER_ADDR:$MASTER_PORT $OMP_NUM_THREADS > world$RANK");
  EXPECT_FALSE(end.failed_rank.has_value());
  const std::string second = read_text(path("world1"));
  EXPECT_EQ(second.find("1/2 1/2 127.0.0.1:1234 "), 0U) << second;
  EXPECT_GE(std::stoi(second.substr(second.rfind(' '))), 1);
}

TEST(LaunchEnvironment, CountsRanksOverMachinesAndKeepsTheUsersThreads) {
  ::setenv("OMP_NUM_THREADS", "7", 1);
  ::setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
  const auto all = environment_of({4, 2, 1, "host0", 29500}, 3);
  ::unsetenv("OMP_NUM_THREADS");
  ::unsetenv("TORCHELASTIC_USE_AGENT_STORE");
  for (const char* expected : {"RANK=7", "WORLD_SIZE=8", "LOCAL_RANK=3", "OMP_NUM_THREADS=7"}) {
    EXPECT_EQ(std::count(all.begin(), all.end(), expected), 1) << expected;
  }
  EXPECT_EQ(std::count(all.begin(), all.end(), "TORCHELASTIC_USE_AGENT_STORE=True"), 0);
}

TEST_F(Launch, PrefixesWholeLinesOfAllButTheFirst) {
  run(2, "printf \"half of $RANK\"; sleep 0.05; printf ' a line\\nlast'; echo error >&2");
  EXPECT_NE(out_.find("[rank 1] half of 1 a line\n[rank 1] last\n"), std::string::npos) << out_;
  EXPECT_NE(out_.find("half of 0"), std::string::npos) << out_;
  EXPECT_EQ(out_.find("[rank 0]"), std::string::npos) << out_;
  EXPECT_NE(err_.find("[rank 1] error\n"), std::string::npos) << err_;
}

TEST_F(Launch, NeverMixesLinesOfDifferentProcesses) {
  run(4, "for i in 1 2 3 4 5 6 7 8 9; do printf \"<$RANK\"; printf \"$RANK>\\n\"; done");
  for (const std::string rank : {"1", "2", "3"}) {
    const std::string line = "[rank " + rank + "] <" + rank + rank + ">\n";
    size_t count = 0;
    for (size_t at = out_.find(line); at != std::string::npos; at = out_.find(line, at + 1)) {
      ++count;
    }
    EXPECT_EQ(count, 9U) << out_;
  }
}

TEST_F(Launch, EndsTheOthersWhenOneFailsAndGivesItsExitCode) {
  const auto end = run(3,
                       "trap 'touch ended$RANK; exit 0' TERM; touch ready$RANK; "
                       "if [ $RANK = 2 ]; then " +
                           kAllReady + "exit 7; fi; " + kLinger);
  EXPECT_EQ(end.failed_rank, 2);
  EXPECT_EQ(end.end.exit_code, 7);
  EXPECT_EQ(end.end.describe(), "exit code 7");
  EXPECT_FALSE(end.was_stopped);
  EXPECT_TRUE(is_there("ended0") && is_there("ended1"));
}

TEST_F(Launch, KillsThoseThatDoNotEndWithinTheGrace) {
  const auto start = std::chrono::steady_clock::now();
  const auto end =
      run(2,
          "trap '' TERM; touch ready$RANK; while [ ! -e ready0 ]; do sleep 0.02; done; "
          "[ $RANK = 1 ] && kill -9 $$; sleep 60",
          200ms);
  EXPECT_EQ(end.failed_rank, 1);
  EXPECT_EQ(end.end.exit_code, 128 + SIGKILL);
  EXPECT_EQ(end.end.describe(), "signal 9 (Killed)");
  EXPECT_GE(std::chrono::steady_clock::now() - start, 200ms);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);
}

TEST_F(Launch, LeavesStragglersASixthOfTheGraceOnceOneHasEnded) {
  const auto start = std::chrono::steady_clock::now();
  const auto end = run(3,
                       "[ $RANK = 1 ] && trap '' TERM; touch ready$RANK; "
                       "while [ ! -e ready1 ]; do sleep 0.02; done; "
                       "[ $RANK = 0 ] && exit 1; exec sleep 60",
                       12s);
  EXPECT_EQ(end.failed_rank, 0);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 2s);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 12s);
}

TEST_F(Launch, PassesEverySignalOnAndSaysThatItWasStopped) {
  // The first process signals its parent, which is this one: twice.
  const auto end =
      run(2,
          "trap 'trap \"exit 3\" INT; touch first$RANK' INT; touch ready$RANK; "
          "if [ $RANK = 0 ]; then while [ ! -e ready1 ]; do sleep 0.02; done; kill -INT $PPID; "
          "while [ ! -e first0 ] || [ ! -e first1 ]; do sleep 0.02; done; kill -INT $PPID; fi; " +
              kLinger);
  EXPECT_TRUE(end.was_stopped);
  EXPECT_TRUE(is_there("first0") && is_there("first1"));
  EXPECT_EQ(end.end.exit_code, 3);
}

TEST_F(Launch, PassesAHangupOnOnceAsARequestToStop) {
  ::signal(SIGHUP, SIG_DFL);  // also if these tests run under nohup
  const auto end = run(1,
                       "trap 'touch stopped; trap \"exit 4\" TERM' TERM; kill -HUP $PPID; "
                       "while [ ! -e stopped ]; do sleep 0.02; done; kill -HUP $PPID; sleep 0.1");
  EXPECT_TRUE(end.was_stopped);
  EXPECT_FALSE(end.failed_rank.has_value()) << end.end.describe();
}

TEST_F(Launch, KillsOrphansInGroupsOfTheirOwn) {
  // As a reward command whose rank was killed; and what that had started.
  run(2,
      "[ $RANK = 1 ] || exec sleep 60; "
      "setsid sh -c 'sleep 60 & echo $! > grandchild; echo $$ > child; wait' & "
      "while [ ! -s child ]; do sleep 0.02; done; kill -9 $$");
  for (const char* each : {"child", "grandchild"}) {
    EXPECT_NE(::kill(std::stoi(read_text(path(each))), 0), 0) << each;
  }
}

TEST_F(Launch, TakesWhatItsProcessesStartedWithThem) {
  run(1, "sleep 60 & echo $! > child; exit 1");
  const pid_t child = std::stoi(read_text(path("child")));
  for (int i = 0; i < 3000 && ::kill(child, 0) == 0; ++i) {
    std::this_thread::sleep_for(10ms);
  }
  // Nobody reaps an orphan here, perhaps: then it is a zombie, which sleeps no more.
  const std::string state = read_text("/proc/" + std::to_string(child) + "/stat");
  EXPECT_TRUE(state.empty() || state.find(") Z ") != std::string::npos) << state;
}

TEST_F(Launch, DiesWithItsLauncher) {
  // A launcher in a process of its own, which is killed without a chance to say anything.
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    const SignalInbox inbox;
    const WorkerCommand command{{"/bin/sh",
                                 "-c",
                                 "echo $$ > '" + path("pid") + ".new'; mv '" + path("pid") +
                                     ".new' '" + path("pid") + "'; exec sleep 60"},
                                {}};
    run_group({command}, 1, 10s, inbox);
    ::_exit(0);
  }
  for (int i = 0; i < 3000 && !is_there("pid"); ++i) {
    std::this_thread::sleep_for(10ms);
  }
  const pid_t worker = std::stoi(read_text(path("pid")));
  ::kill(launcher, SIGKILL);
  ::waitpid(launcher, nullptr, 0);
  std::string state = "?";
  for (int i = 0; i < 3000 && !state.empty() && state.find(") Z ") == std::string::npos; ++i) {
    std::this_thread::sleep_for(10ms);
    state = read_text("/proc/" + std::to_string(worker) + "/stat");
  }
  EXPECT_TRUE(state.empty() || state.find(") Z ") != std::string::npos) << state;
}

TEST(LaunchRestart, GoesOnInsteadOfBeginningAgain) {
  const Words end{"--resume_from_checkpoint", "auto", "--no_overwrite_output_dir"};
  const auto with_end = [&](Words words) {
    words.insert(words.end(), end.begin(), end.end());
    return words;
  };
  const Words kept{"sft", "--model", "m", "lr=1"};
  EXPECT_EQ(resuming_words(kept, "auto"), with_end(kept));
  EXPECT_EQ(resuming_words({"sft", "--overwrite_output_dir", "--model", "m", "lr=1"}, "auto"),
            with_end(kept));
  EXPECT_EQ(
      resuming_words({"sft", "--overwrite_output_dir", "true", "--model", "m", "lr=1"}, "auto"),
      with_end(kept));
  EXPECT_EQ(
      resuming_words({"sft", "--model", "m", "--resume_from_checkpoint", "c", "lr=1"}, "auto"),
      with_end(kept));
  EXPECT_EQ(resuming_words({"sft", "--resume_from_checkpoint=c", "--model", "m", "lr=1"}, "auto"),
            with_end(kept));
  EXPECT_EQ(resuming_words({"sft", "--model", "m", "overwrite_output_dir=1", "lr=1"}, "auto"),
            with_end(kept));
  // Values with an = in them.
  const Words folder{"sft", "--output_dir=out/a=b", "--run_name", "x=y"};
  EXPECT_EQ(resuming_words(folder, "auto"), with_end(folder));
  EXPECT_EQ(
      resuming_words({"sft", "--model", "m", "--resume_from_checkpoint", "o/a=b", "lr=1"}, "auto"),
      with_end(kept));
  EXPECT_EQ(resuming_words({"sft", "--model", "m", "--overwrite_output_dir", "lr=1"}, "auto"),
            with_end(kept));
  EXPECT_EQ(resuming_words(with_end(kept), "auto"), with_end(kept));
}

TEST_F(Launch, KnowsWhetherTheRunHadBegun) {
  const RunMark new_folder(folder_.path() / "new");
  EXPECT_FALSE(new_folder.has_begun());
  std::ofstream(path("training.yaml")) << "old";
  const RunMark mark(folder_.path());
  EXPECT_FALSE(mark.has_begun());
  const auto later = std::filesystem::last_write_time(path("training.yaml")) + 1s;
  std::filesystem::last_write_time(path("training.yaml"), later);
  EXPECT_TRUE(mark.has_begun());
}

TEST_F(Launch, KnowsWhetherTheRunHasMadeACheckpoint) {
  const auto save = [&](const std::string& name) {
    std::filesystem::create_directories(path(name));
    std::ofstream(path(name + "/trainer_state.json")) << "{}";
  };
  save("checkpoint-4");
  const RunMark mark(folder_.path());
  std::ofstream(path("training.yaml")) << "begun";
  EXPECT_FALSE(mark.has_saved());
  save("checkpoint-3");  // after an older one, and not the latest
  EXPECT_FALSE(mark.has_saved());
  save("checkpoint-5");
  EXPECT_TRUE(mark.has_saved());
}

TEST(LaunchCommand, TakesTheCommandAlsoWithoutDashesBeforeIt) {
  const Words separated{"launch", "--nproc", "2", "--grace=3", "--", "sft", "--model", "m"};
  EXPECT_EQ(app::with_separator({"launch", "--nproc", "2", "--grace=3", "sft", "--model", "m"}),
            separated);
  EXPECT_EQ(app::with_separator(separated), separated);
  EXPECT_EQ(app::with_separator({"sft", "--model", "m"}), (Words{"sft", "--model", "m"}));
  const auto result = run_program({"launch", "--nproc", "2", "sft", "--model", "m", "--bf"});
  EXPECT_NE(result.err.find("--bf: there is no such flag"), std::string::npos) << result.err;
}

TEST(LaunchCommand, RefusesWhatCannotBeLaunched) {
  const std::pair<Words, const char*> refusals[] = {
      {{"--nproc", "0", "--", "sft"}, "--nproc 0: expected at least 1"},
      {{"--nproc", "2"}, "Write it behind the flags"},
      {{"--nproc", "2", "--", "chat", "--model", "m"}, "only training runs in several processes"},
      {{"--nproc", "2", "dppo"}, "ppo; did you mean dpo?"},
      {{"--nproc", "2", "--nprocs", "3", "--", "sft"},
       "--nprocs: there is no such flag; did you mean --nproc?"},
      {{"--nproc", "2", "--nnodes", "2", "--", "sft"}, "needs --master_addr"},
      {{"--nproc", "2", "--nnodes", "2", "--master_addr", "h", "--", "sft"}, "needs --node_rank"},
      {{"--nproc", "2", "--nnodes", "2", "--master_addr", "h", "--node_rank", "1", "--", "sft"},
       "needs a secret that the processes prove"},
      {{"--nproc", "2", "--node_rank", "1", "--", "sft"}, "expected less than --nnodes 1"},
      {{"--nproc", "2", "--", "sft", "--model", "m", "--lr_rate", "1"}, "--lr_rate: there is no"}};
  for (const auto& [words, message] : refusals) {
    Words all{"launch"};
    all.insert(all.end(), words.begin(), words.end());
    const auto result = run_program(all);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
  }
}

TEST(LaunchCommand, RestartsAsOftenAsItIsToldAndGivesTheExitCode) {
  const TemporaryFolder folder;
  // Nobody is there to answer: what fails, fails in every process.
  const auto result = run_program({"launch",
                                   "--nproc",
                                   "2",
                                   "--max_restarts",
                                   "1",
                                   "--",
                                   "sft",
                                   "--model",
                                   (folder.path() / "none").string(),
                                   "--data",
                                   "d.jsonl",
                                   "--device",
                                   "cpu",
                                   "--output_dir",
                                   (folder.path() / "out").string()});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_NE(result.err.find("restart 1 of 1, from the start"), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("restart 2"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("failed first: exit code 1"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("[rank 1] reprise: "), std::string::npos) << result.err;
}

}  // namespace
}  // namespace reprise::app
