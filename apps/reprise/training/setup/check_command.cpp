#include "reprise/training/setup/check_command.h"

#include <c10/util/Exception.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

namespace reprise::app {

namespace {

// Whether `sh WORDS…` succeeds, without input and output. A shell that cannot be started is the
// run's problem, not the command's.
bool shell_accepts(std::vector<std::string> words) {
  words.insert(words.begin(), "sh");
  std::vector<char*> raw;
  raw.reserve(words.size() + 1);
  for (auto& word : words) {
    raw.push_back(word.data());
  }
  raw.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_RDWR, 0);
  }
  pid_t child = -1;
  const char* const path = std::getenv("PATH");
  std::string variable = "PATH=" + std::string(path == nullptr ? "" : path);
  char* environment[] = {path == nullptr ? nullptr : variable.data(), nullptr};  // no secrets
  const bool is_started =
      posix_spawn(&child, "/bin/sh", &actions, nullptr, raw.data(), environment) == 0;
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (!is_started || waitpid(child, &status, 0) != child) {
    return true;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// The command up to its first blank; empty if the shell would not take it literally.
std::string plain_first_word(const std::string& command) {
  const auto begin = command.find_first_not_of(" \t\n");
  if (begin == std::string::npos) {
    return "";
  }
  const auto end = command.find_first_of(" \t\n", begin);
  const auto word = command.substr(begin, end == std::string::npos ? end : end - begin);
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
  return word.find_first_not_of(kPlain) == std::string::npos ? word : "";
}

}  // namespace

void check_command(const char* flag, const std::string& command) {
  TORCH_CHECK(shell_accepts({"-n", "-c", command}), flag, ": the shell cannot parse this command");
  const auto word = plain_first_word(command);
  TORCH_CHECK(word.empty() || shell_accepts({"-c", "command -v -- \"$1\"", "sh", word}),
              flag,
              ": there is no program ",
              word);
}

}  // namespace reprise::app
