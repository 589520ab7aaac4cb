// Where optimizer state and gradients are, chosen for a budget of everything on the device.
//
// Note [What leaves first]
// ~~~~~~~~~~~~~~~~~~~~~~~~
// Nothing leaves the device while a plan fits that recomputes. Then what a step copies least of
// leaves: gradients (out in every micro-batch, in for each sum and for the update) or optimizer
// state (in and out once), and at last both. So a smaller budget never keeps more on the device.
#pragma once

#include <reprise/model/model.h>
#include <reprise/optim/optimizer.h>
#include <reprise/train/memory_budget.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise {

/// "optimizer state and gradients"; empty: nothing.
std::string describe(const Placement& placement);

/// The inverse. std::nullopt: no placement is described so.
std::optional<Placement> placement_described(const std::string& text);

/// What a step moves and keeps where.
struct PlacedBytes {
  int64_t state = 0, gradients = 0;  ///< all of it
  int64_t accumulation = 1;          ///< micro-batches of a step

  int64_t moved(const Placement& placement) const;      ///< by a step, both ways together
  int64_t on_device(const Placement& placement) const;  ///< of both
};

/// Of a model that is trained with these options; nothing is allocated.
PlacedBytes placed_bytes(const Model& model, const OptimizerOptions& options, int64_t accumulation);

/// All placements that have at least what is in `least`, and nothing that `limits` forbid, in the
/// order in which they are tried.
std::vector<Placement> placements(const PlacedBytes& bytes,
                                  const Placement& least,
                                  const MemoryLimits& limits);

}  // namespace reprise
