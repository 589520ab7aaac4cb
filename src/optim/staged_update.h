// An update of parameters whose state or gradients are in host memory.
//
// Note [Updates in stages]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// The update is computed on the device, by the same rule in the same order, so it gives the same
// bits as if everything was there. State and gradients pass through the device in stages: while one
// is updated, the next is on its way in, and the state of the one before on its way out. A stage is
// no larger than what one slice of a parameter needs (kChunkElements, or the largest parameter if
// all are smaller; rules that see whole parameters have no slices). There is room for three stages,
// whatever the model.
#pragma once

#include "memory/copy_streams.h"
#include "optim/parameter_state.h"
#include "optim/update_rule.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <array>
#include <cstdint>
#include <vector>

namespace reprise {

class StagedUpdate {
 public:
  /// `all`: every parameter that is updated, in order. `moves_state`: their state is on the host.
  StagedUpdate(const UpdateRule& rule,
               c10::Device device,
               bool moves_state,
               const std::vector<const ParameterState*>& all);

  /// Gradients on the host are multiplied by `factor`, if it is defined, after they arrived.
  void step(const std::vector<const ParameterState*>& parameters,
            double learning_rate,
            const at::Tensor& factor);

  /// What step() takes at most on the device in addition to what is there between steps.
  int64_t update_bytes() const { return update_bytes_; }

  memory::CopyStreams& copies() { return copies_; }

 private:
  struct Slice {
    const ParameterState* state;
    int64_t begin, count;
  };
  using Stage = std::vector<Slice>;
  /// A stage on the device.
  struct Staged {
    std::vector<ParameterState> states;
    std::vector<at::Tensor> gradients;  ///< those that were on the host
    std::vector<memory::TensorCopy> in, out;
  };

  std::vector<Slice> slices_of(const ParameterState& state) const;
  std::vector<Stage> stages_of(const std::vector<const ParameterState*>& parameters) const;
  int64_t staged_bytes(const Slice& slice) const;
  Staged stage(const Stage& slices, const at::Tensor& buffer) const;
  ParameterState view_of(const Slice& slice) const;

  const UpdateRule& rule_;
  bool moves_state_;
  memory::CopyStreams copies_;
  int64_t stage_bytes_ = 0;  // of the largest slice
  int64_t update_bytes_ = 0;
};

}  // namespace reprise
