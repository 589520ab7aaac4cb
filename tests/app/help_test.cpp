// --help: one look for all commands, one screen first, everything on request.
#include "reprise/training/flags/flag_table.h"
#include "support/error_text.h"
#include "support/fixtures.h"
#include "support/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

namespace reprise {
namespace {

using testing::contains;
using testing::run_program;

const std::vector<std::string> kTraining = {"sft", "rm", "prm", "dpo", "kto", "kd", "grpo", "ppo"};
const std::vector<std::string> kOthers = {"launch",
                                          "plan",
                                          "generate",
                                          "chat",
                                          "score",
                                          "tokenize",
                                          "inspect",
                                          "init",
                                          "import",
                                          "export",
                                          "merge",
                                          "demo"};

std::vector<std::string> all_commands() {
  auto all = kTraining;
  all.insert(all.end(), kOthers.begin(), kOthers.end());
  return all;
}

void expect_narrow(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 80U) << line;
  }
}

std::string help_of(std::vector<std::string> words) {
  const auto result = run_program(words);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  return result.out;
}

TEST(Help, IsOneScreenWithTwoExamplesForEveryCommand) {
  for (const std::string& command : all_commands()) {
    SCOPED_TRACE(command);
    const std::string help = help_of({command, "--help"});
    expect_narrow(help);
    EXPECT_LE(std::count(help.begin(), help.end(), '\n'), 42);
    EXPECT_TRUE(contains(help, "usage: reprise " + command));
    const std::string examples = help.substr(help.find("\nExamples:\n") + 11);
    const size_t second = examples.find("reprise ", examples.find('\n'));
    EXPECT_TRUE(contains(examples, "reprise " + command)) << help;
    EXPECT_NE(second, std::string::npos) << help;
    EXPECT_TRUE(contains(help, " --help NAME"));
  }
  expect_narrow(help_of({"--help"}));
  EXPECT_EQ(help_of({"--help", "sft"}), help_of({"launch", "--nproc", "2", "sft", "-h"}));
}

TEST(Help, AllHasEveryFlagInItsGroup) {
  // A few commands: every call is a process.
  for (const Objective objective : {Objective::Sft, Objective::Dpo, Objective::Ppo}) {
    const std::string help = help_of({to_string(objective), "--help", "all"});
    expect_narrow(help);
    for (const auto& flag : app::flags_of(objective)) {
      EXPECT_TRUE(contains(help, "\n  --" + flag.name + " " + flag.unit)) << flag.name;
      EXPECT_TRUE(contains(help, "\n" + flag.group + ":\n")) << flag.group;
    }
  }
  for (const char* command : {"launch", "plan", "generate"}) {
    expect_narrow(help_of({command, "--help", "all"}));
  }
}

TEST(Help, OfOneFlagHasItsTypeDefaultChoicesAndCommands) {
  const std::string rate = help_of({"sft", "--help", "learning_rate"});
  for (const char* part : {"--learning_rate",
                           "a number above 0",
                           "2e-05",
                           "also accepted",
                           "--lr",
                           "sft, rm, prm, dpo, kto, kd, grpo, ppo",
                           "docs/training.md"}) {
    EXPECT_TRUE(contains(rate, part)) << part << "\n" << rate;
  }
  EXPECT_EQ(help_of({"sft", "--help", "--lr"}), rate) << "an alias, with dashes";
  EXPECT_TRUE(contains(help_of({"dpo", "--help", "loss_type"}), "  choices       sigmoid, "));
  EXPECT_TRUE(contains(help_of({"dpo", "--help", "loss_type"}), "docs/objectives/dpo.md"));
  EXPECT_TRUE(contains(help_of({"generate", "--help=max_new_tokens"}), "0 to 16777216"));
  EXPECT_TRUE(contains(help_of({"plan", "--help", "seq"}), "--max_length TOKENS"));
}

TEST(Help, OfAFlagNamesADocumentThatExists) {
  for (const char* command : {"sft", "grpo", "plan", "score"}) {
    const std::string all = help_of({command, "--help", "all"});
    std::istringstream lines(all);
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("  --") || !contains(line, "batch_size")) {
        continue;  // a few of each command
      }
      const std::string help = help_of({command, "--help", line.substr(4, line.find(' ', 4) - 4)});
      const size_t at = help.find("docs/");
      ASSERT_NE(at, std::string::npos) << help;
      const auto file = testing::fixtures() / "../.." / help.substr(at, help.find('\n', at) - at);
      EXPECT_TRUE(std::filesystem::exists(file)) << file;
    }
  }
}

TEST(Help, OfAFlagThatIsMissingSuggestsAnother) {
  const auto typo = run_program({"sft", "--help", "learning_rat"});
  EXPECT_EQ(typo.exit_code, 1);
  EXPECT_TRUE(contains(typo.err, "did you mean --learning_rate?")) << typo.err;
  const auto foreign = run_program({"sft", "--help", "fp16"});
  EXPECT_TRUE(contains(foreign.err, "--fp16 (TRL): here --bf16")) << foreign.err;
}

}  // namespace
}  // namespace reprise
