#include "reprise/launch/signal_inbox.h"

#include <c10/util/Exception.h>

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace reprise::app {

namespace {

sigset_t taken_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int each : {SIGINT, SIGTERM, SIGCHLD, SIGPIPE}) {
    sigaddset(&set, each);
  }
  // Under nohup SIGHUP is ignored and stays ignored. If it were blocked, it would arrive here.
  struct sigaction hangup {};
  if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) {
    sigaddset(&set, SIGHUP);
  }
  return set;
}

}  // namespace

SignalInbox::SignalInbox() {
  const sigset_t set = taken_signals();
  sigprocmask(SIG_BLOCK, &set, &before_);
  descriptor_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  TORCH_CHECK(descriptor_ >= 0, "[launch] no descriptor for signals: ", std::strerror(errno));
}

SignalInbox::~SignalInbox() {
  take();
  ::close(descriptor_);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

std::vector<int> SignalInbox::take() const {
  std::vector<int> signals;
  signalfd_siginfo info{};
  while (::read(descriptor_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    signals.push_back(static_cast<int>(info.ssi_signo));
  }
  return signals;
}

}  // namespace reprise::app
