// The record of one training step, operator by operator, with every region recomputed in full:
// everything that a plan needs to know.
//
// Note [A step in intervals]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// A trace cuts the step wherever an operator of forward or recompute, or a node of backward, begins
// or ends. Each interval has the most activation bytes (Note [What an activation is]) alive in it
// when all regions recompute in full. Other decisions change which storages are alive in an
// interval; trace_peaks.h counts that. A storage lives from the interval in which it is made to the
// one in which it dies, both included.
#pragma once

#include <reprise/export.h>
#include <reprise/policy.h>
#include <reprise/region_decision.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace reprise::planning {

/// No interval, operator or other index.
inline constexpr size_t kNone = SIZE_MAX;

/// One operator call of a region's forward. Calls are numbered as for policies: Note [Numbering of
/// operator calls].
struct TracedOp {
  std::string name;      ///< with namespace
  std::string overload;  ///< empty for the default overload
  OpClass op_class = OpClass::Other;
  size_t call_index = 0;  ///< kNone: a cast that autocast may cache, which policies do not see
  int64_t bytes = 0;      ///< of new storages among its results; 0 for views
  int64_t workspace_bytes = 0;  ///< peak inside the call beyond what it returns
  double forward_ms = 0;
  bool is_saved = false;  ///< autograd saves a result, or something that shares its storage
  bool can_keep = false;  ///< a policy can keep it: no view, no factory, writes no argument
  bool is_rerun = false;  ///< a recompute runs it before it stops
};

/// The compressed form of a storage.
struct TracedForm {
  bool is_exact = false;
  int64_t bytes = 0;            ///< of the compressed form; 0: there is none
  int64_t making_bytes = 0;     ///< working memory of compressing, beyond the result
  int64_t restoring_bytes = 0;  ///< working memory of restoring, beyond the storage
};

/// A storage that a region's operator made in forward, and its counterpart in recompute. Times are
/// intervals.
struct TracedStorage {
  size_t region = 0;
  size_t op = 0;
  int64_t bytes = 0;
  int64_t host_bytes = 0;  ///< that it would take on the host; 0: it cannot be offloaded
  TracedForm compressed = {};
  bool is_saved = false;
  size_t made = 0;
  size_t died = kNone;           ///< kNone: outlives the step
  size_t written = kNone;        ///< first in-place write after it was made
  size_t remade = kNone;         ///< made again in recompute; kNone: not recomputed
  size_t used_up = kNone;        ///< the recomputed one died: the last node that needed it has run
  size_t rewritten = kNone;      ///< first in-place write to the recomputed one
  size_t last_input_of = kNone;  ///< the last region that got it as an input
};

/// A storage made in this step that a region gets as an input.
struct TracedInput {
  size_t storage = kNone;  ///< index in StepTrace::storages, if a region made it
  int64_t bytes = 0;
  int64_t host_bytes = 0;   ///< that it takes on the host if inputs are offloaded; 0: it stays
  bool is_saved = false;    ///< autograd saves it inside the region
  bool is_private = false;  ///< nothing else holds it when backward begins
  size_t made = 0;
  size_t died = kNone;
};

/// Copies that the engine makes in a region's forward and that a plain run does not make, of
/// buffers that the region writes.
struct TracedCopy {
  size_t made = 0;    ///< the first interval in which it is there
  int64_t bytes = 0;  ///< less than 0: earlier copies were dropped
};

/// Host memory, as the engine would use it for this step.
struct TracedHost {
  bool can_offload = false;  ///< host memory is not the device's own
  int64_t page_bytes = 1;    ///< what a region offloads takes whole pages
  size_t prefetch = 1;       ///< OffloadSettings::prefetch
};

enum class StepPhase : uint8_t {
  Outside,    ///< outside of regions; `region` is the number of regions entered so far
  Forward,    ///< of `region`
  Recompute,  ///< of `region`
  Backward,   ///< from the end of the recompute of `region` to the start of the next one
};

struct TraceInterval {
  StepPhase phase = StepPhase::Outside;
  size_t region = 0;
  size_t op = kNone;           ///< the operator of the region that runs in it
  int64_t peak_bytes = 0;      ///< of activations
  int64_t gradient_bytes = 0;  ///< gradients that this step has put in place so far
};

/// One outermost region. Peaks are on top of `entry_bytes`.
struct TracedRegion {
  std::string name;
  size_t kind = 0;  ///< regions that did the same work on the same sizes are of one kind
  std::vector<TracedOp> ops;
  RegionSignature signature;
  size_t rerun_ops = 0;  ///< operators that a recompute runs before it stops
  bool is_recomputed = false;
  std::vector<TracedInput> inputs;
  int64_t input_bytes = 0;   ///< inputs made in this step that no other region gets
  int64_t saved_bytes = 0;   ///< that autograd would save inside it if it ran plainly, without
                             ///< inputs, parameters and what the region returns
  int64_t output_bytes = 0;  ///< made by it and alive when its forward has ended
  std::vector<TracedCopy> copies;
  int64_t log_bytes = 0;  ///< of all copies; held to the end of its backward
  double forward_ms = 0;
  double recompute_ms = 0;
  double backward_ms = 0;   ///< without its recompute, to the start of the next region's
  int64_t entry_bytes = 0;  ///< activations alive when its forward began, its inputs included
  int64_t forward_peak = 0;
  int64_t recompute_peak = 0;
  int64_t backward_peak = 0;
  size_t forward_end = 0;             ///< the last interval of its forward
  size_t released = kNone;            ///< the interval after which it holds nothing any more
  size_t joinable = 0;                ///< regions after it that its caller can join with it
  size_t recompute_begun = kNone;     ///< first interval of its recompute; kNone: not recomputed
  int64_t recompute_entry_bytes = 0;  ///< activations alive when its recompute began
};

struct StepTrace {
  c10::Device device = c10::Device(c10::kCPU);
  std::vector<TracedRegion> regions;  ///< in order of entry
  std::vector<size_t> kinds;          ///< for each kind, its first region
  std::vector<TraceInterval> intervals;
  std::vector<TracedStorage> storages;  ///< those that regions made
  TracedHost host;
  int64_t shared_input_bytes = 0;  ///< inputs that several regions get, made in this step
  double before_ms = 0;            ///< before the first region
  double head_ms = 0;              ///< after the last region's forward, to the first recompute
  int64_t before_peak = 0;         ///< before the first region, on top of nothing
  int64_t head_bytes = 0;          ///< activations when the last region's forward had ended
  int64_t head_peak = 0;           ///< from there to the first recompute, on top of head_bytes
  int64_t peak = 0;                ///< of the whole step
};

struct TraceOptions {
  /// Set if the step sums gradients over processes: the tensors that get the sums (GradientHooks
  /// hear of them). Only these stay; gradients of parameters are freed within the step.
  std::optional<std::vector<at::Tensor>> summed = {};
  /// Called whenever a region begins to run or to run again, maybe by a thread of the autograd
  /// engine: tracing may take long.
  std::function<void()> on_region = {};
};

/// Runs `step`, a forward and a backward on the calling thread, with every region recomputed in
/// full, and records it. On a GPU the step runs twice, the first time to warm up. Afterwards
/// gradients, the default random generators and tensors that forward writes in place are as they
/// were before. Bytes are counted on `device` (the CPU needs track_cpu_memory()); times on CUDA are
/// those of the current stream.
REPRISE_API StepTrace trace_step(const std::function<void()>& step,
                                 c10::Device device,
                                 const TraceOptions& options = {});

}  // namespace reprise::planning
