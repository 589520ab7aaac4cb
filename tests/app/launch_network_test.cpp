// A world that `reprise launch` starts on one machine: at which addresses it listens, and where its
// secret is seen.
#include "app/commands.h"
#include "app/running.h"
#include "support/fixtures.h"
#include "support/listening.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace reprise {
namespace {

using testing::listeners_of;
using testing::Running;
using namespace std::chrono_literals;

TEST(LaunchNetwork, AWorldOfOneMachineListensAtTheLoopbackAddressAndHidesItsSecret) {
  const testing::TemporaryFolder folder;
  const auto training = testing::fixtures() / "training";
  Running world({"launch",
                 "--nproc",
                 "2",
                 "--",
                 "sft",
                 "--model",
                 (training / "models" / "policy").string(),
                 "--data",
                 (training / "data" / "sft_text.jsonl").string(),
                 "--output_dir",
                 (folder / "out").string(),
                 "--cache_dir",
                 (folder / "cache").string(),
                 "--max_steps",
                 "100000",
                 "--device",
                 "cpu"},
                folder / "log");
  // Rank 0 has the store and Gloo's listener, rank 1 Gloo's.
  size_t listeners = 0;
  std::vector<int> ranks;
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (listeners < 3 && !world.has_ended() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(20ms);
    ranks = world.children();
    listeners = 0;
    for (const int rank : ranks) {
      listeners += listeners_of(rank).size();
    }
  }
  EXPECT_EQ(listeners, 3U) << testing::read_text(folder / "log");
  for (const int rank : ranks) {
    for (const auto& each : listeners_of(rank)) {
      EXPECT_TRUE(each.is_loopback()) << each.address << ":" << each.port;
    }
    const auto process = std::filesystem::path("/proc") / std::to_string(rank);
    const std::string environment = testing::read_text(process / "environ");
    const std::string name = "REPRISE_WORLD_SECRET=";
    const size_t at = environment.find(name);
    ASSERT_NE(at, std::string::npos);
    const std::string secret = environment.c_str() + at + name.size();
    EXPECT_EQ(secret.size(), 64U);
    EXPECT_EQ(testing::read_text(process / "cmdline").find(secret), std::string::npos);
  }
  world.kill(SIGKILL);
  world.wait();
}

}  // namespace
}  // namespace reprise
