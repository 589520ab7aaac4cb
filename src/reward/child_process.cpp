// Uses posix_spawn, not fork: a process with threads may call hardly anything between fork and
// exec, and fork would copy the page tables of a whole model.
#include "reward/child_process.h"

#include <c10/util/Exception.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

extern char** environ;  // NOLINT(readability-identifier-naming): POSIX names it

namespace reprise::reward {
namespace {

using namespace std::chrono_literals;

constexpr size_t kErrorTail = 4096;
constexpr auto kGracePeriod = 500ms;  // between SIGTERM and SIGKILL

std::string system_error() {
  return std::strerror(errno);
}

/// Both ends close on exec, so that other children do not hold them open, and have numbers above
/// the standard streams, so that installing one as a stream does not overwrite another.
std::pair<Descriptor, Descriptor> make_pipe() {
  std::array<int, 2> ends{};
  TORCH_CHECK(
      ::pipe2(ends.data(), O_CLOEXEC) == 0, "[reward] cannot create a pipe: ", system_error());
  Descriptor read(ends[0]);
  Descriptor write(ends[1]);
  for (Descriptor* end : {&read, &write}) {
    if (end->get() <= STDERR_FILENO) {
      end->reset(::fcntl(end->get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
      TORCH_CHECK(end->is_open(), "[reward] cannot create a pipe: ", system_error());
    }
  }
  return {std::move(read), std::move(write)};
}

void set_non_blocking(const Descriptor& descriptor) {
  const int flags = ::fcntl(descriptor.get(), F_GETFL);
  TORCH_CHECK(flags >= 0 && ::fcntl(descriptor.get(), F_SETFL, flags | O_NONBLOCK) == 0,
              "[reward] cannot make a pipe non-blocking: ",
              system_error());
}

/// Initial state of the child: its streams, a process group of its own, and default signal
/// handling, whatever this process and thread ignore or block.
class SpawnSettings {
 public:
  SpawnSettings(int input, int output, int error) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_adddup2(&actions_, input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, error, STDERR_FILENO);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setflags(
        &attributes_,
        static_cast<short>(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK));
    posix_spawnattr_setpgroup(&attributes_, 0);
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes_, &signals);
    for (const int usual : {SIGPIPE, SIGINT, SIGTERM}) {
      sigaddset(&signals, usual);
    }
    posix_spawnattr_setsigdefault(&attributes_, &signals);
  }
  ~SpawnSettings() {
    posix_spawnattr_destroy(&attributes_);
    posix_spawn_file_actions_destroy(&actions_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  pid_t shell(std::string command) const {
    std::string shell = "sh";
    std::string option = "-c";
    const std::array<char*, 4> arguments = {shell.data(), option.data(), command.data(), nullptr};
    // The command needs neither the world's secret nor a token for a server.
    std::vector<char*> variables;
    for (char** each = environ; *each != nullptr; ++each) {
      const std::string_view variable = *each;
      if (!variable.starts_with("REPRISE_WORLD_SECRET") &&
          !variable.starts_with("REPRISE_REWARD_TOKEN=")) {
        variables.push_back(*each);
      }
    }
    variables.push_back(nullptr);
    pid_t pid = -1;
    const int error =
        ::posix_spawn(&pid, "/bin/sh", &actions_, &attributes_, arguments.data(), variables.data());
    TORCH_CHECK(error == 0, "[reward] cannot start /bin/sh: ", std::strerror(error));
    return pid;
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

/// Suppresses the SIGPIPE of a write to a pipe without a reader, in this thread and scope only,
/// since the handling of signals belongs to the program.
class SigpipeGuard {
 public:
  SigpipeGuard() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~SigpipeGuard() {
    const timespec now{};
    while (!was_pending_ && sigtimedwait(&sigpipe_, nullptr, &now) == -1 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeGuard(const SigpipeGuard&) = delete;
  SigpipeGuard& operator=(const SigpipeGuard&) = delete;

 private:
  sigset_t sigpipe_{}, before_{};
  bool was_pending_ = false;
};

/// Reads what is available, up to one buffer, so that a process that never stops printing cannot
/// block the loop. Closes the descriptor at the end of the stream.
std::string read_some(Descriptor& descriptor) {
  std::string bytes(65536, '\0');
  const ssize_t count = ::read(descriptor.get(), bytes.data(), bytes.size());
  if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
    descriptor.reset();
  }
  bytes.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  return bytes;
}

std::string ending(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return "signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
  }
  return "exit status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

void Descriptor::reset(int value) {
  if (is_open()) {
    ::close(value_);
  }
  value_ = value;
}

int Descriptor::release() {
  return std::exchange(value_, -1);
}

ChildProcess::ChildProcess(const std::string& command) {
  auto [child_input, input] = make_pipe();
  auto [output, child_output] = make_pipe();
  auto [errors, child_errors] = make_pipe();
  for (const Descriptor* ours : {&input, &output, &errors}) {
    set_non_blocking(*ours);
  }
  input_ = std::move(input);
  output_ = std::move(output);
  errors_ = std::move(errors);
  pid_ = SpawnSettings(child_input.get(), child_output.get(), child_errors.get()).shell(command);
}

ChildProcess::~ChildProcess() {
  end();
}

ChildProcess::End ChildProcess::exchange(
    std::string_view input,
    const std::function<bool(std::string_view printed)>& is_done,
    Clock::time_point deadline) {
  constexpr int64_t kLongestWait = 60'000;
  const SigpipeGuard no_sigpipe;
  std::string printed;
  while (true) {
    const bool is_complete = is_done(printed);
    if (is_complete && (input.empty() || !input_.is_open() || !output_.is_open())) {
      return End::Done;
    }
    printed.clear();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (!output_.is_open() || left <= 0ms) {
      return output_.is_open() ? End::TimeOut : End::OutputClosed;
    }
    // poll() ignores negative descriptors.
    std::array<pollfd, 3> streams = {pollfd{input.empty() ? -1 : input_.get(), POLLOUT, 0},
                                     pollfd{output_.get(), POLLIN, 0},
                                     pollfd{errors_.get(), POLLIN, 0}};
    const auto wait = static_cast<int>(std::min<int64_t>(left.count(), kLongestWait));
    if (::poll(streams.data(), streams.size(), wait) < 0) {
      TORCH_CHECK(errno == EINTR, "[reward] poll: ", system_error());
      continue;
    }
    if (streams[0].revents != 0) {
      write_available(input);
    }
    if (streams[1].revents != 0) {
      printed = read_some(output_);
    }
    if (streams[2].revents != 0) {
      read_errors();
    }
  }
}

std::string ChildProcess::available_output() {
  return output_.is_open() ? read_some(output_) : "";
}

void ChildProcess::write_available(std::string_view& input) {
  const ssize_t count = ::write(input_.get(), input.data(), input.size());
  if (count > 0) {
    input.remove_prefix(static_cast<size_t>(count));
  } else if (count < 0 && errno != EAGAIN && errno != EINTR) {
    input_.reset();  // it reads no more input; its output may still be complete
  }
}

void ChildProcess::read_errors() {
  error_tail_ += read_some(errors_);
  if (error_tail_.size() > kErrorTail) {
    error_tail_.erase(0, error_tail_.size() - kErrorTail);
  }
}

bool ChildProcess::has_ended_within(std::chrono::milliseconds time) const {
  const auto deadline = Clock::now() + time;
  while (true) {
    siginfo_t info{};
    // Not reaped yet, so that its group id cannot be reused before the signal is sent.
    const int result = ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
    if (info.si_pid == pid_ || (result < 0 && errno != EINTR)) {
      return true;
    }
    if (Clock::now() >= deadline) {
      return false;
    }
    std::this_thread::sleep_for(2ms);
  }
}

std::string ChildProcess::end() {
  if (!ending_.empty()) {
    return ending_;
  }
  // A process that closed its output is about to exit; its own status is more informative.
  const bool ended_itself = has_ended_within(output_.is_open() ? 0ms : kGracePeriod);
  input_.reset();
  if (!ended_itself) {
    ::kill(-pid_, SIGTERM);
    has_ended_within(kGracePeriod);
  }
  ::kill(-pid_, SIGKILL);  // the rest of the group
  int status = 0;
  pid_t reaped = 0;
  while ((reaped = ::waitpid(pid_, &status, 0)) < 0 && errno == EINTR) {
  }
  if (errors_.is_open()) {
    read_errors();
  }
  ending_ = !ended_itself ? "ended by us" : reaped == pid_ ? ending(status) : "unknown exit status";
  return ending_;
}

}  // namespace reprise::reward
