// One process of a world, started by this one.
#pragma once

#include "reprise/launch/line_prefixer.h"

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise::app {

/// What a process is started with.
struct WorkerCommand {
  std::vector<std::string> words;        ///< a program by its path, and its arguments
  std::vector<std::string> environment;  ///< "NAME=value", all of it
};

/// How a process ended.
struct WorkerEnd {
  int exit_code = 0;  ///< as a shell gives it: 128 + signal if one ended it
  int signal = 0;     ///< 0: none
  /// "exit code 1", "signal 9 (Killed)"
  std::string describe() const;
};

/// It dies with this process, whatever ends that. A signal of the terminal (Ctrl-C) does not reach
/// it, so that it gets each once, from here.
class Worker {
 public:
  /// The first of a world has this process's own output; what others print is prefixed. Standard
  /// input is empty. Throws if the program cannot be started.
  Worker(int64_t rank, const WorkerCommand& command);
  ~Worker();  ///< kills it
  Worker(Worker&& other) noexcept;
  Worker& operator=(Worker&&) = delete;

  int64_t rank() const { return rank_; }
  bool is_running() const { return pid_ > 0; }
  void send(int signal) const;
  /// How it ended, once, if it has.
  std::optional<WorkerEnd> reap();

  /// Descriptors that can be read when it has printed something; those at their end are -1.
  std::array<int, 2> outputs() const { return outputs_; }
  /// Passes on what can be read without waiting.
  void pass_on_output();

 private:
  int64_t rank_;
  pid_t pid_ = -1;  // -1: ended
  std::array<int, 2> outputs_ = {-1, -1};
  std::vector<LinePrefixer> lines_;  // one for each of the outputs; none: its output is ours
};

}  // namespace reprise::app
