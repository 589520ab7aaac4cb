// Decisions held against a trace: what becomes of every storage, what goes to the host, and when it
// leaves the device and comes back.
//
// The engine's own rules decide that, so the bytes at any moment follow from the program and not
// from the speed of the bus: Note [Parcels follow each other].
#pragma once

#include "plan/step_trace.h"

#include <reprise/policy.h>
#include <reprise/region_decision.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::planning {

/// Note [What a decision changes] says when each is alive.
enum class Fate : uint8_t { Full, Plain, Kept, Offloaded, Compressed };

/// Intervals of what a region gives away.
struct ParcelTimes {
  bool is_sent = false;
  size_t leaves = kNone;    ///< the last one before it leaves; kNone: its own recompute finds it
  size_t returns = kNone;   ///< the first one after it is fetched
  size_t replayed = kNone;  ///< the last one of the region's recompute, which lets go of it
};

class DecidedStep {
 public:
  /// Throws for decisions that do not fit the trace.
  DecidedStep(const StepTrace& trace, const std::vector<RegionDecision>& decisions);

  bool is_plain(size_t region) const { return decisions_[region].is_plain; }
  /// Recompute for what is run again whatever was decided: views, factories, writes.
  Decision decision(size_t region, size_t op) const { return ops_[region][op]; }
  Fate fate(const TracedStorage& storage) const;
  /// Whether offloading the region's inputs frees this one.
  bool frees(size_t region, const TracedInput& input) const;
  const ParcelTimes& parcel(size_t region) const { return parcels_[region]; }
  /// On the host when forward is over: whole pages.
  int64_t host_bytes() const { return host_bytes_; }

 private:
  /// Whether the engine moves the result if it is told to: nobody holds it when forward ends.
  bool can_move(const TracedStorage& storage) const;
  /// By region.
  std::vector<int64_t> moved_bytes() const;
  void schedule_parcels();

  const StepTrace& trace_;
  const std::vector<RegionDecision>& decisions_;
  std::vector<std::vector<Decision>> ops_;
  std::vector<ParcelTimes> parcels_;
  int64_t host_bytes_ = 0;
};

}  // namespace reprise::planning
