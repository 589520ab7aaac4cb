// Runs the built reprise program, as a shell would.
#pragma once

#include "support/temporary_folder.h"

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace reprise::testing {

inline std::filesystem::path program() {
  if (const char* moved = std::getenv("REPRISE_PROGRAM")) {
    return moved;
  }
#ifdef REPRISE_PROGRAM
  return REPRISE_PROGRAM;
#else
  return "reprise";
#endif
}

struct ProgramResult {
  int exit_code = -1;
  std::string out, err;
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return quoted + "'";
}

/// Runs the program with these arguments and this standard input.
inline ProgramResult run_program(const std::vector<std::string>& arguments,
                                 const std::string& input = "") {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "in", std::ios::binary) << input;
  std::string command = shell_quoted(program().string());
  for (const auto& argument : arguments) {
    command += " " + shell_quoted(argument);
  }
  for (const auto& [sign, name] : {std::pair{" <", "in"}, {" >", "out"}, {" 2>", "err"}}) {
    command += sign + shell_quoted((folder.path() / name).string());
  }
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          read_text(folder.path() / "out"),
          read_text(folder.path() / "err")};
}

}  // namespace reprise::testing
