// The handler uses only what is safe in one: lock-free atomics, clock_gettime, sigaction, raise and
// write.
#include "reprise/training/run/stop_signal.h"

#include "reprise/training/run/stop_presses.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <string_view>

namespace reprise::app {

namespace {

constexpr std::string_view kStopping =
    "stopping after this step: a checkpoint is saved; press again to stop without it\n";
constexpr std::string_view kEnding =
    "stopped at once: what came after the last checkpoint is lost\n";
constexpr std::string_view kNothingYet =
    "stopped before the first step: there is nothing to save\n";

StopPresses presses;
std::atomic<bool> has_begun{false};
std::atomic<bool> answers_are_printed{false};
std::atomic<bool> is_on_terminal{false};

int64_t nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void say(std::string_view text) {
  if (!answers_are_printed.load()) {
    return;
  }
  // The progress line is erased; it is drawn again below.
  constexpr std::string_view kClear = "\r\x1b[K";
  for (const std::string_view part : {is_on_terminal.load() ? kClear : "", text}) {
    if (::write(STDERR_FILENO, part.data(), part.size()) < 0) {
      return;  // nobody can be told
    }
  }
}

/// By the default effect of the signal, when the handler returns.
void end_by(int signal) {
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  sigemptyset(&usual.sa_mask);
  sigaction(signal, &usual, nullptr);
  raise(signal);
}

void on_stop_signal(int signal) {
  const int error = errno;
  if (!has_begun.load()) {
    say(kNothingYet);
    end_by(signal);
  } else if (presses.press(nanoseconds()) == StopPresses::Answer::End) {
    say(kEnding);
    end_by(signal);
  } else {
    say(kStopping);
  }
  errno = error;
}

}  // namespace

void listen_for_stop_signals(StopAnswers answers) {
  answers_are_printed = answers == StopAnswers::Printed;
  is_on_terminal = ::isatty(STDERR_FILENO) == 1;
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  sigemptyset(&action.sa_mask);
  sigaddset(&action.sa_mask, SIGINT);
  sigaddset(&action.sa_mask, SIGTERM);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);
}

void save_when_stopped() {
  has_begun = true;
}

bool stop_requested() {
  return presses.is_stop_requested();
}

}  // namespace reprise::app
