// Where the committed fixtures are: tests/fixtures, whose generate.py says how each was made.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace reprise::testing {

/// The folder; the environment variable REPRISE_FIXTURES names another, for a build folder that was
/// moved to a GPU machine.
inline std::filesystem::path fixtures() {
  if (const char* moved = std::getenv("REPRISE_FIXTURES")) {
    return moved;
  }
#ifdef REPRISE_FIXTURES
  return REPRISE_FIXTURES;
#else
  return "tests/fixtures";
#endif
}

}  // namespace reprise::testing
