// Work that is not waited for longer than said, come what may.
//
// A TCPStore waits without end for the answer of a server that is stopped. Such work runs in a
// thread that is left alone when its time is over, so it must own all that it uses.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace reprise::dist {

/// What the work returned, or nothing if it took too long. What it throws in time is thrown here.
template <class Result>
std::optional<Result> within(std::chrono::milliseconds patience, std::function<Result()> work) {
  struct State {
    std::mutex mutex;
    std::condition_variable done;
    std::optional<Result> result;
    std::exception_ptr error;
  };
  const auto state = std::make_shared<State>();
  std::thread([state, work = std::move(work)] {
    std::optional<Result> result;
    std::exception_ptr error;
    try {
      result = work();
    } catch (...) {
      error = std::current_exception();
    }
    const std::scoped_lock lock(state->mutex);
    state->result = std::move(result);
    state->error = error;
    state->done.notify_all();
  }).detach();
  std::unique_lock lock(state->mutex);
  state->done.wait_for(lock, patience, [&] { return state->result || state->error; });
  if (state->error) {
    std::rethrow_exception(state->error);
  }
  return std::move(state->result);
}

}  // namespace reprise::dist
