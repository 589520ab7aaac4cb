// Runs work with a hard deadline, even if it never returns.
//
// torchrun's store, a TCPStore, waits forever for a server that is stopped (SIGSTOP). Such work
// runs in a thread that is abandoned at the deadline, so it must own everything it uses.
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

/// The result of `work`, or std::nullopt after `timeout`. Exceptions thrown in time are rethrown.
template <class Result>
std::optional<Result> run_with_deadline(std::chrono::milliseconds timeout,
                                        std::function<Result()> work) {
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
  state->done.wait_for(lock, timeout, [&] { return state->result || state->error; });
  if (state->error) {
    std::rethrow_exception(state->error);
  }
  return std::move(state->result);
}

}  // namespace reprise::dist
