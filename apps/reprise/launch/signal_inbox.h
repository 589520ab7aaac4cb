// Signals as something to be read in turn, instead of handlers that interrupt.
#pragma once

#include <signal.h>

#include <vector>

namespace reprise::app {

/// From here to the end of its life SIGINT, SIGTERM, SIGHUP, SIGCHLD and SIGPIPE do nothing but
/// wait here; SIGHUP unless it was ignored before, as by nohup.
class SignalInbox {
 public:
  SignalInbox();
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  /// Can be read when there are some.
  int descriptor() const { return descriptor_; }
  /// Those that came since, without waiting.
  std::vector<int> take() const;

 private:
  sigset_t before_{};
  int descriptor_;
};

}  // namespace reprise::app
