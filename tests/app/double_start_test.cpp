// Two processes that are told to write to the same folder, at any distance in time: one of them is
// refused, or comes after the other. REPRISE_DOUBLE_STARTS sets the number of pairs.
#include "app/commands.h"
#include "app/running.h"
#include "app/small_run.h"

#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::Running;
using testing::TemporaryFolder;

int pairs_to_start() {
  const char* wanted = std::getenv("REPRISE_DOUBLE_STARTS");
  return wanted == nullptr ? 6 : std::atoi(wanted);
}

/// What the second process says if it may not write.
bool is_refusal(const std::string& log) {
  return log.find("is writing to this folder") != std::string::npos ||
         log.find("another run has written there meanwhile") != std::string::npos ||
         log.find("has a model but no checkpoint") != std::string::npos;
}

TEST(DoubleStart, NeverTearsTheFolder) {
  const TemporaryFolder folder;
  const fs::path whole = folder.path() / "whole";
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(Running(testing::small_run("sft", whole, folder.path()), folder.path() / "log").wait(),
            0);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;

  std::mt19937 random(11);
  std::uniform_real_distribution<double> delay(0, time.count());
  int refused = 0;
  for (int pair = 0; pair < pairs_to_start(); ++pair) {
    const fs::path output = folder.path() / ("run" + std::to_string(pair));
    auto command = testing::small_run("sft", output, folder.path());
    if (pair % 3 == 2) {
      command.erase(command.end() - 2, command.end());  // not resumed
      command.emplace_back("--overwrite_output_dir");
    }
    std::string logs[2];
    int codes[2];
    {
      Running first(command, folder.path() / "first");
      // Half of them at the same moment, when there is no folder yet.
      std::this_thread::sleep_for(std::chrono::duration<double>(pair % 2 == 0 ? 0 : delay(random)));
      Running second(command, folder.path() / "second");
      codes[0] = first.wait();
      codes[1] = second.wait();
    }
    int index = 0;
    for (const char* name : {"first", "second"}) {
      logs[index++] = testing::read_text(folder.path() / name);
      fs::remove(folder.path() / name);
    }
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(codes[i] == 0 || is_refusal(logs[i])) << codes[i] << ": " << logs[i];
      refused += codes[i] == 0 ? 0 : 1;
    }
    EXPECT_TRUE(codes[0] == 0 || codes[1] == 0);
    testing::expect_same_run(output, whole);
    EXPECT_FALSE(fs::exists(output / ".reprise.lock"));
    fs::remove_all(output);
  }
  EXPECT_GT(refused, 0);
  RecordProperty("refused", refused);
}

}  // namespace
}  // namespace reprise
