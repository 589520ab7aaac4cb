// What one of several processes needs for a model, before any of them is there.
#pragma once

#include <reprise/export.h>
#include <reprise/model/model.h>
#include <reprise/optim/optimizer.h>
#include <reprise/parallel/spread.h>

#include <cstdint>

namespace reprise {

/// A process among others, and how it trains.
struct SpreadPlace {
  int64_t size = 1;
  int64_t rank = 0;
  SpreadOptions options = {};  ///< parts on the device: not for cpu_offload
  OptimizerOptions optimizer = {};
  int64_t accumulation = 1;  ///< micro-batches of a step
};

/// Bytes of tensors on the device of one process. What is not here is the same as without others:
/// the activations of its micro-batch.
struct SpreadBytes {
  int64_t parameters = 0;  ///< its own, all the time
  int64_t gradients = 0;   ///< its own, from backward to the update
  int64_t optimizer = 0;   ///< all the time
  /// Of whole units at their most, in a pass: the one that computes, the next one, and the table
  /// of a tied head all along. 0 unless fsdp.
  int64_t gathered = 0;
  /// Beyond `gradients` at the most in backward: gradients of whole units until they are handed
  /// in, and the buffers that they are summed in.
  int64_t reductions = 0;

  int64_t kept() const { return parameters + optimizer; }  ///< between steps
};

/// Exact, up to how an allocator rounds. The model is of the meta device, with its adapters, and
/// used up: it is spread, over processes that are not there, and good for nothing afterwards.
/// Parameters that need no gradients are frozen.
REPRISE_API SpreadBytes predict_spread_bytes(Model& model, const SpreadPlace& place);

}  // namespace reprise
