// Counting what came of programs, and what happens when one of them crashes.
#include "fuzz/programs/campaign.h"

#include "fuzz/programs/generate.h"
#include "fuzz/programs/outcome.h"
#include "fuzz/programs/running_seed.h"
#include "fuzz/programs/types.h"

#include <gtest/gtest.h>

#include <csignal>

namespace reprise::fuzz {
namespace {

TEST(GeneratedPrograms, AreWellTypedAndTheSameForASeed) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto program = generate(seed);
    EXPECT_TRUE(is_well_typed(program)) << seed;
    EXPECT_EQ(instruction_count(program), instruction_count(generate(seed))) << seed;
  }
}

TEST(GeneratedPrograms, DoWithoutWhatIsNamed) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto program = generate(seed, {.without = {"loop", "steps", "thread", "parallel"}});
    for_each_instruction(program.body, [seed](const Instruction& instruction) {
      EXPECT_NE(instruction.kind, Kind::Loop) << seed;
      EXPECT_NE(instruction.kind, Kind::Thread) << seed;
      EXPECT_NE(instruction.kind, Kind::Parallel) << seed;
    });
  }
}

TEST(ACampaign, IsTheSameInSeveralProcesses) {
  const auto alone = run_campaign({.seed = 7, .programs = 41});
  Summary together;
  EXPECT_TRUE(run_in_processes({.seed = 7, .programs = 41, .jobs = 3}, together));
  EXPECT_EQ(together.programs, 41);
  EXPECT_EQ(together.equal, alone.equal);
  EXPECT_EQ(together.refused_kinds, alone.refused_kinds);
  EXPECT_EQ(together.invalid_kinds, alone.invalid_kinds);
}

TEST(ACampaign, FailsIfRegionsRefuseTooMuch) {
  Summary summary{.programs = 1000, .equal = 900, .refused = 100};
  EXPECT_TRUE(summary.is_success());
  summary.refused = 200;
  EXPECT_FALSE(summary.is_success());
  summary = {.programs = 1000, .equal = 999, .different = 1};
  EXPECT_FALSE(summary.is_success());
}

TEST(ACampaign, CountsMessagesWithoutTheirNumbers) {
  EXPECT_EQ(message_kind("[reprise] tensor #12 of shape [2, 3] is at version 5\nmore"),
            "[reprise] tensor ## of shape [..] is at version #");
}

TEST(ACampaignDeathTest, NamesTheSeedOfAProgramThatCrashes) {
  EXPECT_EXIT(
      {
        name_seed_on_signals();
        const RunningSeed running(4711);
        std::raise(SIGABRT);  // sanitizers keep the others for themselves
      },
      ::testing::ExitedWithCode(128 + SIGABRT),
      "signal 6 in the program of --seed 4711");
}

}  // namespace
}  // namespace reprise::fuzz
