// Lets a step run without lasting effects: gradients, random state and tensors that forward writes
// in place are restored at the end.
//
// Random operators of a traced step draw from a copy of the CPU's generator (PrivateDraws). The
// default generators change all the same if the step seeds them or draws from them directly, or on
// a GPU. Then they are restored, unless it was another thread that drew, which must not find its
// numbers again.
#pragma once

#include "checkpoint/state/generator_state.h"
#include "plan/measure/activation_counter.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <vector>

namespace reprise::planning {

class UntouchedState {
 public:
  /// `counter` sets aside what this class allocates.
  explicit UntouchedState(ActivationCounter& counter);
  ~UntouchedState();
  UntouchedState(const UntouchedState&) = delete;
  UntouchedState& operator=(const UntouchedState&) = delete;

  /// A gradient is about to be accumulated in `leaf`. It goes into a new tensor, so that an
  /// existing gradient is not written.
  void before_accumulation(const at::Tensor& leaf);
  /// Whether `leaf` had a gradient before before_accumulation().
  bool had_gradient(const at::Tensor& leaf) const;
  /// A storage that the step did not make is about to be written.
  void before_write(const c10::Storage& storage);
  /// Another thread draws from the CPU's default generator.
  void note_other_draws() { others_draw_ = true; }

 private:
  struct Gradient {
    at::Tensor leaf;
    at::Tensor before;
  };
  struct Content {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // a storage that dies needs no restoring
    at::Tensor bytes;
  };
  ActivationCounter& counter_;
  std::vector<detail::GeneratorState> generators_;
  bool others_draw_ = false;
  std::vector<Gradient> gradients_;
  std::vector<Content> contents_;
};

}  // namespace reprise::planning
