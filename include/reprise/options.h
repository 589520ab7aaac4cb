// The options of a checkpointed region.
#pragma once

#include <reprise/export.h>
#include <reprise/policy.h>

#include <ATen/core/Generator.h>
#include <c10/util/Exception.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace reprise {

/// What is compared between the forward and the recompute of a region.
enum class DeterminismCheck : uint8_t {
  None,      ///< only the number of saved tensors
  Metadata,  ///< also the shape, dtype and device of every saved tensor
  Values,    ///< also their contents, by hash: slow and synchronizing; to find nondeterminism
};

/// Makes an object whose lifetime is a scope: a guard, for example
///   [] { return std::make_shared<AutocastScope>(at::kCUDA); }
using ScopeMaker = std::function<std::shared_ptr<void>()>;

struct CheckpointOptions {
  /// Use PyTorch's older variant, which runs a nested backward call for the region. It has limits
  /// (docs/checkpointing.md); what it cannot do throws.
  bool use_reentrant = false;
  /// Restore the state of the random number generators for the recompute, so that random operators
  /// return the same numbers again.
  bool preserve_rng_state = true;
  /// Stop the recompute as soon as the last needed tensor has been recomputed. An EarlyStopGuard
  /// overrides it.
  bool early_stop = true;
  DeterminismCheck determinism_check = DeterminismCheck::Metadata;
  /// Which operator results to keep instead of recomputing them; null: none.
  std::shared_ptr<const Policy> policy = nullptr;
  /// Allow Decision::Compress to change values. Gradients then differ from those of training
  /// without checkpointing.
  bool allow_lossy = false;
  /// Move the region's input activations to host memory until the recompute.
  bool offload_inputs = false;
  /// Random generators that the region uses besides the default ones.
  std::vector<at::Generator> generators = {};
  /// Called when the region's forward begins; the object lives until forward ends, also by an
  /// exception. Its counterpart in PyTorch is context_fn. What it does itself is no part of the
  /// region.
  ScopeMaker forward_scope = {};
  /// The same for every recompute, where it begins after the state of forward's thread is restored
  /// and ends before the caller's is.
  ScopeMaker recompute_scope = {};
  /// Name of the region in messages and statistics.
  std::string name = {};
};

/// Thrown if a region cannot be recomputed as it ran: it does different work, its inputs or state
/// have changed, or it is misused. Exceptions of user code inside a region keep their type in
/// forward; in backward they are nested in a CheckpointError that names the region
/// (std::rethrow_if_nested). LibTorch's own errors keep their type in both cases and get the
/// region's name as context.
class REPRISE_API CheckpointError : public c10::Error {
 public:
  explicit CheckpointError(std::string message);
};

}  // namespace reprise
