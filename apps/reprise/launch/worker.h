// One process of the world, started by this one.
#pragma once

#include "reprise/launch/line_prefixer.h"

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise::app {

/// Program, arguments and environment of a process.
struct WorkerCommand {
  std::vector<std::string> words;        ///< path of the program, then its arguments
  std::vector<std::string> environment;  ///< complete, as "NAME=value"
};

/// How a process ended.
struct WorkerEnd {
  int exit_code = 0;  ///< as in a shell: 128 + signal if a signal ended it
  int signal = 0;     ///< 0: none
  /// "exit code 1", "signal 9 (Killed)"
  std::string describe() const;
};

/// A worker dies with this process, however that ends. Signals from the terminal (Ctrl-C) do not
/// reach it directly, so it gets each one exactly once, from here.
class Worker {
 public:
  /// Rank 0 writes directly to this process's output; the output of other ranks gets a prefix.
  /// Standard input is empty. Throws if the program cannot be started.
  Worker(int64_t rank, const WorkerCommand& command);
  ~Worker();  ///< kills it
  Worker(Worker&& other) noexcept;
  Worker& operator=(Worker&&) = delete;

  int64_t rank() const { return rank_; }
  bool is_running() const { return pid_ > 0; }
  void send(int signal) const;
  /// How the process ended, once it has; returned only once.
  std::optional<WorkerEnd> reap();

  /// Descriptors that become readable with output; -1 after end of file.
  std::array<int, 2> outputs() const { return outputs_; }
  /// Forwards the output that is available, without blocking.
  void pass_on_output();

 private:
  int64_t rank_;
  pid_t pid_ = -1;  // -1: ended
  std::array<int, 2> outputs_ = {-1, -1};
  std::vector<LinePrefixer> lines_;  // one per output; empty: rank 0
};

}  // namespace reprise::app
