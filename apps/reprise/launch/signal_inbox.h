// Signals that are read from a descriptor instead of interrupting in handlers.
#pragma once

#include <signal.h>

#include <vector>

namespace reprise::app {

/// Blocks SIGINT, SIGTERM, SIGHUP, SIGCHLD and SIGPIPE during its lifetime and collects them.
/// SIGHUP is left alone if it was ignored before, as under nohup.
class SignalInbox {
 public:
  SignalInbox();
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  /// Becomes readable when signals have arrived.
  int descriptor() const { return descriptor_; }
  /// The signals that arrived since the last call. Does not block.
  std::vector<int> take() const;

 private:
  sigset_t before_{};
  int descriptor_;
};

}  // namespace reprise::app
