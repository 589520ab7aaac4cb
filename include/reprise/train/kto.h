// Preference optimisation on single responses, each desirable or not: KTO.
#pragma once

#include <reprise/dist/world.h>
#include <reprise/export.h>
#include <reprise/loss/unpaired.h>
#include <reprise/train/reference.h>

#include <memory>
#include <optional>

namespace reprise {

/// Without a reference, use_precomputed() must follow. Batches have `mismatched` rows if
/// needs_kl(options). The KL is a mean over the micro-batches that all processes train on at a
/// time.
REPRISE_API std::unique_ptr<ReferencedObjective> make_kto(std::shared_ptr<Model> model,
                                                          std::optional<Reference> reference,
                                                          const UnpairedOptions& options = {},
                                                          const World& world = World::single());

}  // namespace reprise
