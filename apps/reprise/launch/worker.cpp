// Uses fork instead of posix_spawn, because only the new process itself can ask to die with its
// parent. Between fork and exec it only makes async-signal-safe calls, as this process has threads.
#include "reprise/launch/worker.h"

#include <c10/util/Exception.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace reprise::app {

namespace {

constexpr int kCannotStart = 127;  // as in shells

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

struct Pipe {
  int read = -1;
  int write = -1;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  TORCH_CHECK(::pipe2(ends.data(), O_CLOEXEC) == 0, "[launch] no pipe: ", std::strerror(errno));
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {ends[0], ends[1]};
}

struct Start {
  pid_t parent;
  int input;
  std::array<int, 2> outputs;  // -1: inherited
  char** words;
  char** environment;
};

[[noreturn]] void exec_worker(const Start& start) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != start.parent) {
    ::_exit(kCannotStart);  // the parent died before prctl()
  }
  ::setpgid(0, 0);
  // Not in the terminal's foreground group, but rank 0 still writes to the terminal.
  ::signal(SIGTTOU, SIG_IGN);
  for (const int usual : {SIGINT, SIGTERM, SIGPIPE, SIGCHLD}) {
    ::signal(usual, SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(start.input, STDIN_FILENO);
  if (start.outputs[0] >= 0) {
    ::dup2(start.outputs[0], STDOUT_FILENO);
    ::dup2(start.outputs[1], STDERR_FILENO);
  }
  ::execve(start.words[0], start.words, start.environment);
  ::_exit(kCannotStart);
}

}  // namespace

std::string WorkerEnd::describe() const {
  if (signal == 0) {
    return "exit code " + std::to_string(exit_code);
  }
  return "signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
}

Worker::Worker(int64_t rank, const WorkerCommand& command) : rank_(rank) {
  TORCH_CHECK(::access(command.words.at(0).c_str(), X_OK) == 0,
              "[launch] ",
              command.words[0],
              " cannot be started: ",
              std::strerror(errno));
  auto words = command.words;
  auto environment = command.environment;
  const auto word_pointers = pointers_to(words);
  const auto environment_pointers = pointers_to(environment);
  const int input = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  Start start{::getpid(),
              input,
              {-1, -1},
              const_cast<char**>(word_pointers.data()),
              const_cast<char**>(environment_pointers.data())};
  if (rank > 0) {
    const std::string prefix = "[rank " + std::to_string(rank) + "] ";
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
      const Pipe pipe = make_pipe();
      outputs_.at(lines_.size()) = pipe.read;
      start.outputs.at(lines_.size()) = pipe.write;
      lines_.emplace_back(prefix, stream);
    }
  }
  pid_ = ::fork();
  if (pid_ == 0) {
    exec_worker(start);
  }
  const int error = errno;
  for (const int end : {input, start.outputs[0], start.outputs[1]}) {
    if (end >= 0) {
      ::close(end);
    }
  }
  TORCH_CHECK(pid_ > 0, "[launch] no process for rank ", rank, ": ", std::strerror(error));
}

Worker::~Worker() {
  if (is_running()) {
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);  // its own process group may not exist yet
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  for (const int output : outputs_) {
    if (output >= 0) {
      ::close(output);
    }
  }
}

Worker::Worker(Worker&& other) noexcept
    : rank_(other.rank_),
      pid_(std::exchange(other.pid_, -1)),
      outputs_(std::exchange(other.outputs_, {-1, -1})),
      lines_(std::move(other.lines_)) {}

void Worker::send(int signal) const {
  if (is_running()) {
    ::kill(pid_, signal);
  }
}

std::optional<WorkerEnd> Worker::reap() {
  siginfo_t ended{};
  // WNOWAIT keeps the process id, so that its group id cannot be reused before we signal the group.
  if (!is_running() ||
      ::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      ended.si_pid != pid_) {
    return std::nullopt;
  }
  ::kill(-pid_, SIGKILL);  // processes that it started
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  pass_on_output();
  for (LinePrefixer& lines : lines_) {
    lines.finish();
  }
  if (WIFSIGNALED(status)) {
    return WorkerEnd{128 + WTERMSIG(status), WTERMSIG(status)};
  }
  return WorkerEnd{WEXITSTATUS(status), 0};
}

void Worker::pass_on_output() {
  constexpr int kMostReads = 64;  // a process that prints without pause must not starve the others
  for (size_t i = 0; i < lines_.size(); ++i) {
    std::array<char, 4096> bytes{};
    for (int reads = 0; outputs_.at(i) >= 0 && reads < kMostReads; ++reads) {
      const ssize_t count = ::read(outputs_.at(i), bytes.data(), bytes.size());
      if (count > 0) {
        lines_[i].add({bytes.data(), static_cast<size_t>(count)});
      } else if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
        break;
      } else {
        ::close(std::exchange(outputs_.at(i), -1));
      }
    }
  }
}

}  // namespace reprise::app
