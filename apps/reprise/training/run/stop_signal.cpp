#include "reprise/training/run/stop_signal.h"

#include <atomic>
#include <csignal>

namespace reprise::app {

namespace {

// Lock-free, so that a signal handler may write it.
std::atomic<bool> is_stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);

}  // namespace

void listen_for_stop_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { is_stop_requested.store(true); };
  sigemptyset(&action.sa_mask);
  // SA_RESETHAND: the second signal has its default effect.
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);
}

bool stop_requested() {
  return is_stop_requested.load();
}

}  // namespace reprise::app
