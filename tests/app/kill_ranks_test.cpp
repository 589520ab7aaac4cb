// Training on several processes of which one is killed at any moment: all stop, the last checkpoint
// is whole, and the run that goes on ends with the bytes of one that nobody disturbed. And one that
// goes on with other numbers of processes.
#include "app/commands.h"
#include "app/running.h"
#include "support/fixtures.h"
#include "support/run_metrics.h"

#include <cmath>
#include <random>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::is_saving;
using testing::Running;
using testing::TemporaryFolder;

constexpr int kRankKills = 10;

class WorldFaults : public ::testing::Test {
 protected:
  std::vector<std::string> command(const fs::path& output,
                                   int processes,
                                   const std::string& strategy) const {
    const fs::path training = testing::fixtures() / "training";
    return {"launch",
            "--nproc",
            std::to_string(processes),
            "--grace",
            "5",
            "--",
            "sft",
            "--model",
            (training / "models" / "policy").string(),
            "--data",
            (training / "data" / "sft_text.jsonl").string(),
            "--output_dir",
            output.string(),
            "--cache_dir",
            (folder_.path() / "cache").string(),
            "--max_steps",
            "12",
            "--per_device_train_batch_size",
            "1",
            "--gradient_accumulation_steps",
            std::to_string(12 / processes),
            "--learning_rate",
            "1e-3",
            "--ema_decay",
            "0.9",
            "--gradient_checkpointing",
            "--parallel",
            strategy,
            "--comm_timeout",
            "20",
            "--save_steps",
            "1",
            "--save_total_limit",
            "2",
            "--device",
            "cpu",
            "--resume_from_checkpoint",
            "auto"};
  }

  fs::path log() const { return folder_.path() / "log"; }

  void run_whole(const fs::path& output, int processes, const std::string& strategy) const {
    Running whole(command(output, processes, strategy), log());
    ASSERT_EQ(whole.wait(), 0) << testing::read_text(log());
  }

  TemporaryFolder folder_;
};

TEST_F(WorldFaults, EndsWithTheSameBytesAfterTenKills) {
  const fs::path whole = folder_.path() / "whole";
  const auto start = std::chrono::steady_clock::now();
  run_whole(whole, 2, "fsdp");
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  std::mt19937 random(11);
  std::uniform_real_distribution<double> moment(0, time.count());
  int kills = 0;
  int runs = 0;
  while (kills < kRankKills) {
    const fs::path output = folder_.path() / ("run" + std::to_string(runs++));
    bool is_done = false;
    while (!is_done) {
      Running process(command(output, 2, "fsdp"), log());
      const bool waits_for_save = kills % 3 == 2;
      const auto end = std::chrono::steady_clock::now() +
                       std::chrono::duration<double>(kills < kRankKills ? moment(random) : 1e3);
      while (!process.has_ended() && std::chrono::steady_clock::now() < end &&
             !(waits_for_save && kills < kRankKills && is_saving(output))) {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
      const auto ranks = process.children();
      if (!process.has_ended() && !ranks.empty()) {
        ::kill(ranks[random() % ranks.size()], SIGKILL);
        ++kills;
        process.wait();  // the launcher stops the other
      } else {
        ASSERT_EQ(process.wait(), 0) << testing::read_text(log());
        is_done = true;
      }
    }
    EXPECT_EQ(testing::read_text(output / "model.safetensors"),
              testing::read_text(whole / "model.safetensors"));
    EXPECT_EQ(testing::computed_metrics(output), testing::computed_metrics(whole));
    EXPECT_FALSE(is_saving(output)) << "a half-written checkpoint was left";
  }
  RecordProperty("kills", kills);
}

TEST_F(WorldFaults, GoesOnWithOtherNumbersOfProcesses) {
  const fs::path whole = folder_.path() / "whole";
  run_whole(whole, 1, "ddp");
  const fs::path output = folder_.path() / "changing";
  for (const auto& [processes, strategy, until] :
       {std::tuple{4, "fsdp", 3}, {2, "zero2", 6}, {3, "fsdp", 12}}) {
    Running process(command(output, processes, strategy), log());
    const auto reached = output / ("checkpoint-" + std::to_string(until));
    while (until < 12 && !process.has_ended() && !fs::exists(reached)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (until < 12) {
      process.kill(SIGTERM);
    }
    ASSERT_EQ(process.wait(), 0) << testing::read_text(log());
  }
  const auto found = testing::computed_metrics(output);
  const auto expected = testing::computed_metrics(whole);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    for (const char* name : {"loss", "grad_norm"}) {
      const auto a = found[i][name].get<double>();
      const auto b = expected[i][name].get<double>();
      EXPECT_LE(std::abs(a - b), 1e-5 * std::abs(b)) << name << " of step " << i + 1;
    }
  }
}

}  // namespace
}  // namespace reprise
