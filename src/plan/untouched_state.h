// Lets a step run without leaving a trace of its own: gradients, random state and what forward
// writes in place are put back at the end.
#pragma once

#include "checkpoint/rng_state.h"
#include "plan/activation_counter.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <vector>

namespace reprise::planning {

class UntouchedState {
 public:
  /// `counter` sets aside what is allocated here.
  explicit UntouchedState(ActivationCounter& counter) : counter_(counter), rng_({}) {}
  ~UntouchedState();
  UntouchedState(const UntouchedState&) = delete;
  UntouchedState& operator=(const UntouchedState&) = delete;

  /// A gradient is about to be accumulated in `leaf`. It goes into a new tensor, so that one that
  /// was there before is not written.
  void before_accumulation(const at::Tensor& leaf);
  /// Whether one was there before, after before_accumulation().
  bool had_gradient(const at::Tensor& leaf) const;
  /// A storage from outside of the step is about to be written.
  void before_write(const c10::Storage& storage);

 private:
  struct Gradient {
    at::Tensor leaf;
    at::Tensor before;
  };
  struct Content {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // what dies needs no content
    at::Tensor bytes;
  };
  ActivationCounter& counter_;
  detail::RngState rng_;
  std::vector<Gradient> gradients_;
  std::vector<Content> contents_;
};

}  // namespace reprise::planning
