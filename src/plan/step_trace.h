// What one training step did, operator by operator, with every region recomputed in full: all that
// a plan needs to know of it.
//
// Note [A step in intervals]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~
// A trace cuts the step wherever an operator of forward or recompute, or a node of backward, begins
// or ends. Each interval knows the most activation bytes (Note [What an activation is]) alive in it
// while all regions recompute in full. What another decision changes is which storages are alive in
// an interval beyond those, or no longer: trace_peaks.h counts that. Storages live from the
// interval in which they are made to the one in which they die, both included.
#pragma once

#include <reprise/export.h>
#include <reprise/policy.h>

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace reprise::planning {

/// Stands for an interval or an operator that there is none of.
inline constexpr size_t kNone = SIZE_MAX;

/// One operator call of a region's forward, numbered as policies number it: Note [Numbering of
/// operator calls].
struct TracedOp {
  std::string name;      ///< with namespace
  std::string overload;  ///< empty for the default overload
  OpClass op_class = OpClass::Other;
  size_t call_index = 0;        ///< kNone: a cast that autocast may have cached, seen by no policy
  int64_t bytes = 0;            ///< new storages among its results; 0 for views
  int64_t workspace_bytes = 0;  ///< most bytes inside the call beyond what it returns
  double forward_ms = 0;
  bool is_saved = false;  ///< autograd saves a result, or something that shares its storage
  bool can_keep = false;  ///< a policy can keep it: no view, no factory, writes no argument
  bool is_rerun = false;  ///< a recompute runs it before it stops
};

/// What compressing a storage takes.
struct TracedForm {
  bool is_exact = false;
  int64_t bytes = 0;            ///< of the smaller form; 0: there is none
  int64_t making_bytes = 0;     ///< work memory beyond it
  int64_t restoring_bytes = 0;  ///< work memory beyond the storage
};

/// A storage that a region's operator made, in forward and, as another one, in recompute.
struct TracedStorage {
  size_t region = 0;
  size_t op = 0;
  int64_t bytes = 0;
  int64_t host_bytes = 0;  ///< that it would take on the host; 0: it cannot be moved there
  TracedForm compressed = {};
  bool is_saved = false;
  size_t made = 0;
  size_t died = kNone;     ///< kNone: outlives the step
  size_t written = kNone;  ///< in place, for the first time, after it was made
  size_t remade = kNone;   ///< in recompute; kNone: not recomputed
  size_t used_up = kNone;  ///< the last node that needed the recomputed one has run
  size_t rewritten = kNone;
  size_t last_input_of = kNone;  ///< the last region that got it as an input
};

/// A storage that a region gets, made in this step.
struct TracedInput {
  size_t storage = kNone;  ///< among the trace's, if a region made it
  int64_t bytes = 0;
  int64_t host_bytes = 0;   ///< that it takes on the host if inputs are offloaded; 0: it stays
  bool is_saved = false;    ///< autograd saves it inside the region
  bool is_private = false;  ///< nobody else holds it when backward begins
  size_t made = 0;
  size_t died = kNone;
};

/// Host memory, as the engine would use it for this step.
struct TracedHost {
  bool is_served = false;  ///< another memory than the device's
  int64_t page_bytes = 1;  ///< what a region gives away takes whole pages
  size_t prefetch = 1;     ///< OffloadSettings::prefetch
};

enum class StepPhase : uint8_t {
  Outside,    ///< before, between and after the regions' forward; `region` counts those entered
  Forward,    ///< of `region`
  Recompute,  ///< of `region`
  Backward,   ///< from the end of the recompute of `region` to the begin of the next one
};

struct TraceInterval {
  StepPhase phase = StepPhase::Outside;
  size_t region = 0;
  size_t op = kNone;           ///< the region's operator that runs in it
  int64_t peak_bytes = 0;      ///< of activations
  int64_t gradient_bytes = 0;  ///< gradients in place that came into being in this step
};

/// One outermost region. Peaks are on top of `entry_bytes`.
struct TracedRegion {
  std::string name;
  size_t kind = 0;  ///< regions that did the same work on the same sizes are of one kind
  std::vector<TracedOp> ops;
  size_t rerun_ops = 0;  ///< operators that a recompute runs before it stops
  bool is_recomputed = false;
  std::vector<TracedInput> inputs;
  int64_t input_bytes = 0;   ///< inputs made in this step that no other region gets
  int64_t saved_bytes = 0;   ///< that autograd would save inside it if it ran plainly, without
                             ///< inputs, parameters and what the region returns
  int64_t output_bytes = 0;  ///< that it made and that were alive when its forward had ended
  int64_t log_bytes = 0;     ///< copies of buffers that it writes, which a plain run does not make
  double forward_ms = 0;
  double recompute_ms = 0;
  double backward_ms = 0;   ///< without the recompute, to the begin of the next region's
  int64_t entry_bytes = 0;  ///< activations alive when its forward began, its inputs included
  int64_t forward_peak = 0;
  int64_t recompute_peak = 0;
  int64_t backward_peak = 0;
  size_t forward_end = 0;             ///< the last interval of its forward
  size_t released = kNone;            ///< interval after which nothing of it is held any more
  size_t joinable = 0;                ///< regions after it that its caller can join with it
  size_t recompute_begun = kNone;     ///< the first interval from there on; kNone: not recomputed
  int64_t recompute_entry_bytes = 0;  ///< activations alive when its recompute began
};

struct StepTrace {
  c10::Device device = c10::Device(c10::kCPU);
  std::vector<TracedRegion> regions;  ///< in order of entry
  std::vector<size_t> kinds;          ///< for each kind the first region that is of it
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

/// Runs `step`, a forward and a backward on the calling thread, once (on a device twice, the first
/// time for nothing) with every region of it recomputed in full, and tells what it did. Gradients,
/// random state of the default generators and what forward writes in place are afterwards as they
/// were before. Bytes are counted on `device` (the CPU needs track_cpu_memory()); times on CUDA are
/// those of the current stream.
REPRISE_API StepTrace trace_step(const std::function<void()>& step, c10::Device device);

}  // namespace reprise::planning
