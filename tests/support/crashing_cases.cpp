// Cases for crash_isolation_test.cpp, which alone runs them.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

namespace reprise::testing {
namespace {

TEST(Crashing, DISABLED_Before) {}

TEST(Crashing, DISABLED_BySignal) {
  std::raise(SIGSEGV);
}

TEST(Crashing, DISABLED_Between) {}

TEST(Crashing, DISABLED_ByExit) {
  std::_Exit(0);
}

TEST(Crashing, DISABLED_Behind) {}

}  // namespace
}  // namespace reprise::testing
