// Preference optimisation on single responses, each labelled desirable or undesirable: KTO.
#pragma once

#include <reprise/dist/world.h>
#include <reprise/export.h>
#include <reprise/loss/unpaired.h>
#include <reprise/train/reference.h>

#include <memory>
#include <optional>

namespace reprise {

/// Trains on rows of Objective::Kto. Without a reference, call use_precomputed() on the result
/// before training. Set CollateOptions::mismatch if needs_kl(options). In training the KL estimate
/// is a mean over the micro-batches that all processes of `world` compute at the same time.
REPRISE_API std::unique_ptr<ReferencedObjective> make_kto(std::shared_ptr<Model> model,
                                                          std::optional<Reference> reference,
                                                          const UnpairedOptions& options = {},
                                                          const World& world = World::single());

}  // namespace reprise
