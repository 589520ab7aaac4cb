// Command lines of documents, run as a shell in an empty folder runs them.
#pragma once

#include "app/training.h"

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

namespace reprise::testing {

inline std::string document(const std::string& name) {
  return read_text(fixtures() / ".." / ".." / name);
}

class DocumentedCommands : public Training {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(path("bin"));
    std::filesystem::create_symlink(std::filesystem::absolute(program()), path("bin/reprise"));
    std::filesystem::create_directory_symlink(
        std::filesystem::absolute(fixtures() / ".." / ".." / "examples"), path("examples"));
  }

  /// What it printed.
  std::string expect_runs(const std::string& command) {
    const std::string line = "cd " + shell_quoted(folder_.path().string()) +
                             " && PATH=\"$PWD/bin:$PATH\" XDG_CACHE_HOME=\"$PWD/caches\" && " +
                             "export PATH XDG_CACHE_HOME && { " + command +
                             "; } > log 2>&1 < /dev/null";
    EXPECT_EQ(std::system(line.c_str()), 0) << command << "\n" << read_text(path("log"));
    return read_text(path("log"));
  }
};

}  // namespace reprise::testing
