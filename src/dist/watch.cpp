#include "dist/watch.h"

#include "dist/patience.h"
#include "dist/signs.h"

#include <c10/util/Exception.h>

#include <utility>
#include <vector>

namespace reprise::dist {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kBeat = 500ms;
constexpr auto kLook = 200ms;
/// Silence of so many beats is death. A process that is merely busy beats from another thread.
constexpr auto kSilence = 4 * kBeat;

/// Looks until a failure is reported, or all are seen to live, or one has been silent for long.
SignHistory observe(c10d::Store& store, int64_t size, int64_t own) {
  SignHistory history{.first = read_signs(store, size), .last = {}};
  const auto end = Clock::now() + kSilence;
  while (true) {
    history.last = read_signs(store, size);
    if (has_failure(history.last) || history.silent(own).empty() || Clock::now() > end) {
      return history;
    }
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace

Watch::Watch(OpenStore open, int64_t rank, int64_t size, bool has_store)
    : open_(std::move(open)),
      rank_(rank),
      size_(size),
      has_store_(has_store),
      store_(open_(kSilence)) {
  write_sign(*store_, rank_, {});
  // An answer: the sign is there before this process says by another connection that it is.
  store_->check({sign_keys(rank_).front()});
  heart_ = std::thread([this] { beat(); });
}

Watch::~Watch() {
  leave();
}

int64_t Watch::enter(const std::string& what) {
  const std::scoped_lock lock(mutex_);
  what_ = what;
  return ++entered_;
}

void Watch::post() const {
  try {
    write_beat(*store_, rank_, {.beats = beats_, .entered = entered_, .what = what_});
  } catch (const std::exception&) {
    // The store is gone. That matters to a collective only, which will say it.
  }
}

void Watch::beat() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kBeat, [this] { return has_left_; })) {
    ++beats_;
    post();
  }
}

void Watch::report(const std::string& message, Cause cause) {
  const std::scoped_lock lock(mutex_);
  if (std::exchange(has_reported_, true) || has_left_) {
    return;
  }
  try {
    write_failure(*store_, rank_, message, cause == Cause::Here);
    post();
  } catch (const std::exception&) {  // the same
  }
}

bool Watch::has_reported() const {
  const std::scoped_lock lock(mutex_);
  return has_reported_;
}

std::string Watch::find_cause(int64_t number, const std::string& what) const {
  {
    const std::scoped_lock lock(mutex_);
    post();  // others may be looking for a cause as well
  }
  std::optional<SignHistory> history;
  try {
    history = within<SignHistory>(kSilence + 1s,
                                  [open = open_, size = size_, own = rank_]() -> SignHistory {
                                    const auto store = open(kSilence);
                                    return observe(*store, size, own);
                                  });
  } catch (const std::exception&) {  // nobody listens there any more
  }
  return history ? history->cause(rank_, number, what)
                 : std::string(
                       "rank 0, or what else has the world's store, does not respond: it "
                       "is dead, stopped, or has ended");
}

void Watch::leave() {
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(has_left_, true)) {
      return;
    }
    try {
      post();
      write_departure(*store_, rank_);
    } catch (const std::exception&) {  // the same
    }
  }
  changed_.notify_all();
  heart_.join();
}

void Watch::linger() const {
  if (!has_store_) {
    return;
  }
  const auto begin = Clock::now();
  try {
    SignHistory history{.first = read_signs(*store_, size_), .last = {}};
    const auto is_done = [&] {
      history.last = read_signs(*store_, size_);
      const auto waiting = history.staying(rank_);
      const auto time = Clock::now() - begin;
      // The dead do not leave; of the living, those who wait for this process leave soon.
      return waiting.empty() || (time > 3 * kBeat && waiting == history.silent(rank_)) ||
             time > 2 * kSilence;
    };
    while (!is_done()) {
      std::this_thread::sleep_for(10ms);
    }
  } catch (const std::exception&) {  // nothing to wait for then
  }
}

}  // namespace reprise::dist
