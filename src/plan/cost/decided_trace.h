// A trace under decisions: what happens to every storage, what goes to the host, and when it leaves
// the device and comes back.
//
// The engine's own rules determine that, so the bytes at any moment follow from the program and not
// from the speed of the bus: Note [Order of offload and fetch].
#pragma once

#include "plan/trace/step_trace.h"

#include <reprise/policy.h>
#include <reprise/region_decision.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::planning {

/// A RegionDecision in terms of the trace: operators by their index, without names. Thousands of
/// plans are counted to make one curve, and names would take most of the time.
struct TracedDecision {
  bool is_plain = false;
  bool offload_inputs = false;
  bool allow_lossy = false;
  size_t joined = 0;
  /// By operator; empty: all are recomputed. Recompute for operators that run again under any
  /// decision: views, factories, writes.
  std::vector<Decision> ops = {};
};

/// Throws for decisions that do not fit the trace.
std::vector<TracedDecision> traced_decisions(const StepTrace& trace,
                                             const std::vector<RegionDecision>& decisions);

/// The inverse.
std::vector<RegionDecision> decisions_of(const StepTrace& trace,
                                         const std::vector<TracedDecision>& regions);

/// What happens to a storage; Note [What a decision changes] says when each is alive.
enum class Fate : uint8_t { Full, Plain, Kept, Offloaded, Compressed };

/// When everything that a region offloads leaves the device and returns, in intervals.
struct OffloadTimes {
  bool is_sent = false;
  size_t leaves = kNone;    ///< the last interval before it leaves; kNone: it is still on the
                            ///< device when the region recomputes
  size_t returns = kNone;   ///< the first interval after it is fetched
  size_t replayed = kNone;  ///< the last interval of the region's recompute, which releases it
};

class DecidedTrace {
 public:
  /// One decided region per region of the trace. Both must outlive this.
  DecidedTrace(const StepTrace& trace, const std::vector<TracedDecision>& regions);

  bool is_plain(size_t region) const { return regions_[region].is_plain; }
  Decision decision(size_t region, size_t op) const {
    const auto& ops = regions_[region].ops;
    return ops.empty() ? Decision::Recompute : ops[op];
  }
  Fate fate(const TracedStorage& storage) const;
  /// Whether offloading the region's inputs frees this input.
  bool frees(size_t region, const TracedInput& input) const;
  const OffloadTimes& offload_times(size_t region) const { return offloads_[region]; }
  /// Host memory in whole pages when forward is over.
  int64_t host_bytes() const { return host_bytes_; }

 private:
  /// Whether any region is decided to offload something.
  bool has_offloads() const;
  /// Whether the engine can offload the result: nothing else holds it when forward ends.
  bool can_move(const TracedStorage& storage) const;
  /// Offloaded bytes by region.
  std::vector<int64_t> moved_bytes() const;
  void schedule_offloads();

  const StepTrace& trace_;
  const std::vector<TracedDecision>& regions_;
  std::vector<OffloadTimes> offloads_;
  int64_t host_bytes_ = 0;
};

}  // namespace reprise::planning
