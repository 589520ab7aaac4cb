// Runs the tests of one file in a child process, and those behind a crash in another.
#pragma once

#include <functional>
#include <string>

namespace reprise::testing {

/// Selects the tests that `file`.cpp contains and calls `run`, which runs them, in a child.
/// If a test ends the child, it counts as failed, and the tests behind it run in a new child.
/// Returns main()'s exit code: not 0 if a test failed or crashed, or if the file has no tests.
int run_isolated(const std::string& file, const std::function<int()>& run);

}  // namespace reprise::testing
