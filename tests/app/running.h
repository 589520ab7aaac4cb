// The program while it runs: to be killed, or asked to stop.
#pragma once

#include "support/program.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

extern char** environ;

namespace reprise::testing {

/// The program, running; its messages go to a file.
class Running {
 public:
  Running(const std::vector<std::string>& arguments, const std::filesystem::path& log) {
    std::vector<std::string> words{program().string()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> raw;
    for (auto& word : words) {
      raw.push_back(word.data());
    }
    raw.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const std::string log_name = log.string();
    for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
      posix_spawn_file_actions_addopen(
          &actions, descriptor, log_name.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    }
    EXPECT_EQ(posix_spawn(&pid_, raw[0], &actions, nullptr, raw.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Running() {
    if (!has_ended()) {
      kill(SIGKILL);
      wait();
    }
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  bool has_ended() {
    if (!status_) {
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        status_ = status;
      }
    }
    return status_.has_value();
  }
  /// The exit code; -1 if a signal ended it.
  int wait() {
    while (!has_ended()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return WIFEXITED(*status_) ? WEXITSTATUS(*status_) : -1;
  }
  void kill(int signal) const { ::kill(pid_, signal); }

  /// The processes that it started, in the order it started them in.
  std::vector<pid_t> children() const {
    const auto id = std::to_string(pid_);
    std::istringstream listed(read_text("/proc/" + id + "/task/" + id + "/children"));
    return {std::istream_iterator<pid_t>(listed), {}};
  }

 private:
  pid_t pid_ = -1;
  std::optional<int> status_;
};

/// Whether a checkpoint is half written at this moment.
inline bool is_saving(const std::filesystem::path& output) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(output, ignored)) {
    if (entry.path().filename().string().find(".partial-") != std::string::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace reprise::testing
