// A shell command with pipes to its standard streams, and an exchange over them that can neither
// block forever nor raise SIGPIPE.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace reprise::reward {

/// Owns a file descriptor.
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

/// Runs in a process group of its own, which the destructor terminates: SIGTERM, then SIGKILL.
class ChildProcess {
 public:
  using Clock = std::chrono::steady_clock;

  /// Runs `sh -c command`. Throws if the process cannot be started.
  explicit ChildProcess(const std::string& command);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  enum class End : uint8_t { Done, OutputClosed, TimeOut };
  /// Sends `input` and passes the output to `is_done`, until that returns true and all input is
  /// sent or the process has closed its input. Reads and writes concurrently, so neither side can
  /// block the other.
  End exchange(std::string_view input,
               const std::function<bool(std::string_view printed)>& is_done,
               Clock::time_point deadline);

  /// Output that is available without waiting, up to the size of one buffer.
  std::string available_output();

  const std::string& error_tail() const { return error_tail_; }  ///< last 4 KiB of standard error

  /// Terminates the process if it still runs. Returns how it ended: "exit status 1", "signal 9
  /// (Killed)".
  std::string end();

 private:
  void write_available(std::string_view& input);
  void read_errors();
  bool has_ended_within(std::chrono::milliseconds time) const;

  pid_t pid_ = -1;
  std::string ending_;  // empty: not ended yet
  Descriptor input_, output_, errors_;
  std::string error_tail_;
};

}  // namespace reprise::reward
