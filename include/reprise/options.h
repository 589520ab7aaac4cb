// How one region is checkpointed.
#pragma once

#include <reprise/export.h>
#include <reprise/policy.h>

#include <ATen/core/Generator.h>
#include <c10/util/Exception.h>

#include <memory>
#include <string>
#include <vector>

namespace reprise {

/// What is compared between forward and recompute.
enum class DeterminismCheck : uint8_t {
  None,      ///< nothing but the number of tensors
  Metadata,  ///< shape, dtype and device of every recomputed tensor
  Values,    ///< its content too, by hash: slow, waits for the device; for finding nondeterminism
};

struct CheckpointOptions {
  /// Run backward of the region inside backward of the whole, as PyTorch's older variant does. Its
  /// limits are refused with a message: docs/checkpointing.md.
  bool use_reentrant = false;
  /// Give random operators the same numbers again when the region is recomputed.
  bool preserve_rng_state = true;
  /// Stop recomputing as soon as the last needed tensor is there.
  bool early_stop = true;
  DeterminismCheck determinism_check = DeterminismCheck::Metadata;
  /// Which results to keep; null recomputes everything.
  std::shared_ptr<const Policy> policy = nullptr;
  /// Let Decision::Compress change values: gradients are then no longer those of plain training.
  bool allow_lossy = false;
  /// Move the region's input activations to host memory until its recompute.
  bool offload_inputs = false;
  /// Generators used inside the region beyond the default ones.
  std::vector<at::Generator> generators = {};
  /// For messages and statistics.
  std::string name = {};
};

/// Thrown when a region cannot be recomputed as it ran: different work, changed state, misuse.
/// Errors of user code inside a region keep their type in forward; in backward they arrive as a
/// CheckpointError that names the region, with the original nested (std::rethrow_if_nested).
/// LibTorch's own errors keep their type in both and get the region's name as context.
class REPRISE_API CheckpointError : public c10::Error {
 public:
  explicit CheckpointError(std::string message);
};

}  // namespace reprise
