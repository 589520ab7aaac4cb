#include "dist/heartbeat_monitor.h"

#include "dist/deadline.h"
#include "dist/heartbeat.h"

#include <c10/util/Exception.h>

#include <utility>
#include <vector>

namespace reprise::dist {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kBeat = 500ms;
constexpr auto kLook = 200ms;
/// A process that misses this many beats counts as dead. A busy one still beats, from its own
/// thread.
constexpr auto kSilence = 4 * kBeat;

/// Polls until a failure is reported, all processes are seen alive, or one stays silent too long.
HeartbeatHistory observe(c10d::Store& store, int64_t size, int64_t own) {
  HeartbeatHistory history{.first = read_heartbeats(store, size), .last = {}};
  const auto end = Clock::now() + kSilence;
  while (true) {
    history.last = read_heartbeats(store, size);
    if (has_failure(history.last) || history.silent(own).empty() || Clock::now() > end) {
      return history;
    }
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace

HeartbeatMonitor::HeartbeatMonitor(OpenStore open, int64_t rank, int64_t size, bool has_store)
    : open_(std::move(open)),
      rank_(rank),
      size_(size),
      has_store_(has_store),
      store_(open_(kSilence)) {
  write_heartbeat(*store_, rank_, {});
  // Wait for an answer, so that the heartbeat is in the store before this process announces itself
  // through another connection.
  store_->check({heartbeat_keys(rank_).front()});
  heart_ = std::thread([this] { beat(); });
}

HeartbeatMonitor::~HeartbeatMonitor() {
  leave();
}

int64_t HeartbeatMonitor::enter(const std::string& what) {
  const std::scoped_lock lock(mutex_);
  what_ = what;
  return ++entered_;
}

void HeartbeatMonitor::post() const {
  try {
    write_beat(*store_, rank_, {.beats = beats_, .entered = entered_, .what = what_});
  } catch (const std::exception&) {
    // The store is gone. That matters only to a collective, which will report it.
  }
}

void HeartbeatMonitor::beat() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kBeat, [this] { return has_left_; })) {
    ++beats_;
    post();
  }
}

void HeartbeatMonitor::report(const std::string& message, Cause cause) {
  const std::scoped_lock lock(mutex_);
  if (std::exchange(has_reported_, true) || has_left_) {
    return;
  }
  try {
    write_failure(*store_, rank_, message, cause == Cause::Here);
    post();
  } catch (const std::exception&) {  // the store is gone, as in post()
  }
}

bool HeartbeatMonitor::has_reported() const {
  const std::scoped_lock lock(mutex_);
  return has_reported_;
}

std::string HeartbeatMonitor::find_cause(int64_t number, const std::string& what) const {
  {
    const std::scoped_lock lock(mutex_);
    post();  // others may be looking for a cause as well
  }
  std::optional<HeartbeatHistory> history;
  try {
    history = run_with_deadline<HeartbeatHistory>(
        kSilence + 1s, [open = open_, size = size_, own = rank_]() -> HeartbeatHistory {
          const auto store = open(kSilence);
          return observe(*store, size, own);
        });
  } catch (const std::exception&) {  // the store is gone
  }
  return history ? history->cause(rank_, number, what)
                 : std::string(
                       "rank 0, or whatever process hosts the world's store, does not respond: it "
                       "is dead, stopped, or has ended");
}

void HeartbeatMonitor::leave() {
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(has_left_, true)) {
      return;
    }
    try {
      post();
      write_departure(*store_, rank_);
    } catch (const std::exception&) {  // the store is gone, as in post()
    }
  }
  changed_.notify_all();
  heart_.join();
}

void HeartbeatMonitor::linger() const {
  if (!has_store_) {
    return;
  }
  const auto begin = Clock::now();
  try {
    HeartbeatHistory history{.first = read_heartbeats(*store_, size_), .last = {}};
    const auto is_done = [&] {
      history.last = read_heartbeats(*store_, size_);
      const auto waiting = history.present(rank_);
      const auto time = Clock::now() - begin;
      // Dead processes never leave. Live ones that wait for this process will leave soon.
      return waiting.empty() || (time > 3 * kBeat && waiting == history.silent(rank_)) ||
             time > 2 * kSilence;
    };
    while (!is_done()) {
      std::this_thread::sleep_for(10ms);
    }
  } catch (const std::exception&) {  // nothing to wait for
  }
}

}  // namespace reprise::dist
