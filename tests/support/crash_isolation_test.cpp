// A test that ends its process fails alone: the others of its file still run.
#include "support/error_text.h"
#include "support/program.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace reprise::testing {
namespace {

/// This program on the tests of one file, DISABLED_ ones too.
ProgramResult run_file(const std::string& name) {
  const TemporaryFolder folder;
  const auto out = folder.path() / "out";
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = "env -u GTEST_OUTPUT GTEST_ALSO_RUN_DISABLED_TESTS=1 " +
                              shell_quoted(self) + " --file=" + name + " >" +
                              shell_quoted(out.string()) + " 2>&1";
  const int status = std::system(command.c_str());
  return {
      .exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1, .out = read_text(out), .err = {}};
}

TEST(CrashIsolation, FailsTheTestThatCrashesAndRunsTheOthers) {
  const auto result = run_file("crashing_cases");
  EXPECT_EQ(result.exit_code, 1) << result.out;
  for (const char* passed : {"Before", "Between", "Behind"}) {
    EXPECT_TRUE(contains(result.out, std::string("[       OK ] Crashing.DISABLED_") + passed));
  }
  for (const char* crashed : {"BySignal", "ByExit"}) {
    EXPECT_TRUE(contains(result.out, std::string("[  CRASHED ] Crashing.DISABLED_") + crashed));
  }
}

TEST(CrashIsolation, RefusesAFileWithoutTests) {
  const auto result = run_file("crashing_case");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(contains(result.out, "no test is in crashing_case.cpp"));
}

}  // namespace
}  // namespace reprise::testing
