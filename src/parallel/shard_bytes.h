// Predicts the memory that one of several processes needs for a model, without running them.
#pragma once

#include <reprise/export.h>
#include <reprise/model/model.h>
#include <reprise/optim/optimizer.h>
#include <reprise/parallel/shard.h>

#include <cstdint>

namespace reprise {

/// One process of a world, and how it trains.
struct ShardPlacement {
  int64_t size = 1;
  int64_t rank = 0;
  ShardOptions options = {};  ///< without cpu_offload; block_elements are the optimizer's
  OptimizerOptions optimizer = {};
  int64_t accumulation = 1;  ///< micro-batches per step
};

/// Bytes of tensors on the device of one process. Activations are not included: they are those of
/// its micro-batch, as in a single process.
struct ShardBytes {
  int64_t parameters = 0;  ///< its parts, all the time
  int64_t gradients = 0;   ///< of its parts, from backward to the update
  int64_t optimizer = 0;   ///< all the time
  /// Peak of the gathered units during a pass: the current unit, the next one, and the table of a
  /// tied head throughout. 0 unless fsdp.
  int64_t gathered = 0;
  /// Peak in backward on top of `gradients`: gradients of whole units until they are reduced, and
  /// the buffers of the reductions.
  int64_t reductions = 0;

  int64_t kept() const { return parameters + optimizer; }  ///< between steps
};

/// Exact, except for how an allocator rounds. The model must be on the meta device, with its
/// adapters. It is sharded over a fake world and cannot be used afterwards. Parameters that do not
/// require gradients are frozen.
REPRISE_API ShardBytes predict_shard_bytes(Model& model, const ShardPlacement& placement);

}  // namespace reprise
