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
  /// Throws for decisions that do not fit the trace.
  DecidedTrace(const StepTrace& trace, const std::vector<RegionDecision>& decisions);

  bool is_plain(size_t region) const { return decisions_[region].is_plain; }
  /// Recompute for operators that run again under any decision: views, factories, writes.
  Decision decision(size_t region, size_t op) const { return ops_[region][op]; }
  Fate fate(const TracedStorage& storage) const;
  /// Whether offloading the region's inputs frees this input.
  bool frees(size_t region, const TracedInput& input) const;
  const OffloadTimes& offload_times(size_t region) const { return offloads_[region]; }
  /// Host memory in whole pages when forward is over.
  int64_t host_bytes() const { return host_bytes_; }

 private:
  /// Whether the engine can offload the result: nothing else holds it when forward ends.
  bool can_move(const TracedStorage& storage) const;
  /// Offloaded bytes by region.
  std::vector<int64_t> moved_bytes() const;
  void schedule_offloads();

  const StepTrace& trace_;
  const std::vector<RegionDecision>& decisions_;
  std::vector<std::vector<Decision>> ops_;
  std::vector<OffloadTimes> offloads_;
  int64_t host_bytes_ = 0;
};

}  // namespace reprise::planning
