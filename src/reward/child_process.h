// A shell command with pipes to its three standard streams, and a conversation over them that can
// neither block for ever nor be ended by a signal.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace reprise::detail {

/// Closes it at the end of its life.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : value_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    reset(other.release());
    return *this;
  }

  int get() const { return value_; }
  bool is_open() const { return value_ >= 0; }
  void reset(int value = -1);
  int release();

 private:
  int value_ = -1;
};

/// Runs in a process group of its own, which the destructor ends: SIGTERM, then SIGKILL.
class ChildProcess {
 public:
  using Clock = std::chrono::steady_clock;

  /// Runs `sh -c command`. Throws if there is no process to be had.
  explicit ChildProcess(const std::string& command);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  enum class End : uint8_t { Done, OutputClosed, TimeOut };
  /// Sends `input` and hands what is printed to `is_done` until all is sent (or the process wants
  /// no more) and it says so; both at once, so that it does not matter which side speaks first.
  End converse(std::string_view input,
               const std::function<bool(std::string_view printed)>& is_done,
               Clock::time_point deadline);

  /// What it printed and nobody has read yet, without waiting; not all of very much.
  std::string printed_before();

  const std::string& error_tail() const { return error_tail_; }  ///< last 4 KiB of standard error

  /// Ends it, if it still runs, and says how it ended: "exit status 1", "signal 9 (Killed)".
  std::string end();

 private:
  void write_some(std::string_view& input);
  void read_errors();
  bool has_ended_within(std::chrono::milliseconds time) const;

  pid_t pid_ = -1;
  std::string ending_;  // empty: not ended yet
  Descriptor input_, output_, errors_;
  std::string error_tail_;
};

}  // namespace reprise::detail
