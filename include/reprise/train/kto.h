// Preference optimisation on single responses, each desirable or not: KTO.
#pragma once

#include <reprise/export.h>
#include <reprise/loss/unpaired.h>
#include <reprise/train/reference.h>
#include <reprise/train/world.h>

#include <memory>

namespace reprise {

/// Batches have `mismatched` rows if needs_kl(options).
REPRISE_API std::unique_ptr<ReferencedObjective> make_kto(std::shared_ptr<Model> model,
                                                          Reference reference,
                                                          const UnpairedOptions& options = {},
                                                          const World& world = World::single());

}  // namespace reprise
