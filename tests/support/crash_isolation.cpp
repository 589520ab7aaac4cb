#include "support/crash_isolation.h"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

/// How far a child is, where the parent can read it after the child's death.
struct Running {
  char test[1024];  ///< the last that was begun
  bool has_ended;   ///< all tests have
};

class TellsParent : public ::testing::EmptyTestEventListener {
 public:
  explicit TellsParent(Running* running) : running_(running) {}

  void OnTestStart(const ::testing::TestInfo& test) override {
    const std::string name = std::string(test.test_suite_name()) + "." + test.name();
    std::snprintf(running_->test, sizeof(running_->test), "%s", name.c_str());
  }

 private:
  Running* running_;
};

/// In the order in which they run.
std::vector<std::string> tests_of(const std::string& file) {
  std::vector<std::string> names;
  const auto& unit = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < unit.total_test_suite_count(); ++i) {
    const auto& suite = *unit.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const auto& test = *suite.GetTestInfo(j);
      if (std::filesystem::path(test.file()).stem() == file) {
        names.push_back(std::string(suite.name()) + "." + test.name());
      }
    }
  }
  return names;
}

std::string filter_of(const std::vector<std::string>& names) {
  std::string filter;
  for (const std::string& name : names) {
    filter += (filter.empty() ? "" : ":") + name;
  }
  return filter;
}

/// The exit code, or -1 if a test ended the child: by a signal, or by exit() as sanitizers do.
int run_in_child(const std::vector<std::string>& names,
                 Running* running,
                 const std::function<int()>& run) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // when ctest ends the parent, this process goes too
    GTEST_FLAG_SET(filter, filter_of(names));
    ::testing::UnitTest::GetInstance()->listeners().Append(
        new TellsParent(running));  // allow: owning-new
    const int code = run();
    running->has_ended = true;
    std::exit(code);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) {
    std::perror("crash isolation");
    return 1;
  }
  if (running->has_ended && WIFEXITED(status)) {
    return WEXITSTATUS(status);
  }
  const std::string how = WIFSIGNALED(status) ? strsignal(WTERMSIG(status))
                                              : "exit code " + std::to_string(WEXITSTATUS(status));
  if (running->has_ended) {
    std::printf("[  CRASHED ] after the last test (%s)\n", how.c_str());
    return 1;
  }
  std::printf("[  CRASHED ] %s (%s)\n", running->test, how.c_str());
  return -1;
}

}  // namespace

int run_isolated(const std::string& file, const std::function<int()>& run) {
  std::vector<std::string> left = tests_of(file);
  if (left.empty()) {
    std::printf("no test is in %s.cpp\n", file.c_str());
    return 1;
  }
  void* shared =
      mmap(nullptr, sizeof(Running), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    std::perror("crash isolation");
    return 1;
  }
  auto* running = static_cast<Running*>(shared);
  const std::string output = GTEST_FLAG_GET(output);
  int result = 0;
  for (int crashes = 0; !left.empty();) {
    const int code = run_in_child(left, running, run);
    if (code >= 0) {
      return code != 0 ? code : result;
    }
    result = 1;
    const auto crashed = std::find(left.begin(), left.end(), running->test);
    left.erase(left.begin(), crashed == left.end() ? left.end() : crashed + 1);
    // The next child's results go beside those of this one.
    if (output.ends_with(".xml")) {
      GTEST_FLAG_SET(
          output, output.substr(0, output.size() - 4) + "." + std::to_string(++crashes) + ".xml");
    }
  }
  return result;
}

}  // namespace reprise::testing
