// What a region of a traced step is called with, and whether moving it to the host would free it.
#pragma once

#include "plan/trace/step_trace.h"
#include "plan/trace/storage_recorder.h"

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::planning {

class RegionInputs {
 public:
  /// A storage that the region was called with.
  struct Input {
    size_t number = 0;  ///< in the StorageRecorder
    c10::VariableVersion version_counter = {};
    uint32_t version = 0;
    TracedInput traced;
  };

  /// Takes those of `tensors` that the step made, each storage once.
  RegionInputs(const std::vector<at::Tensor>& tensors, const StorageRecorder& storages);

  /// Autograd saves the storage inside the region.
  void note_saved(size_t number);
  /// Call when backward begins: whoever still holds an input beside the region holds it under any
  /// decision.
  void find_private(const StorageRecorder& storages);

  const std::vector<Input>& all() const { return inputs_; }
  /// Before the allocator's rounding.
  size_t raw_bytes() const { return raw_bytes_; }

 private:
  std::vector<Input> inputs_;
  size_t raw_bytes_ = 0;
};

}  // namespace reprise::planning
