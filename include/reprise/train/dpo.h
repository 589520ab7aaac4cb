// Preference optimisation on pairs of responses: DPO and its variants.
#pragma once

#include <reprise/export.h>
#include <reprise/loss/preference.h>
#include <reprise/train/reference.h>

#include <memory>
#include <optional>

namespace reprise {

/// Trains on rows of Objective::Dpo. A reference is required if needs_reference(options), unless
/// you call use_precomputed() on the result before training; losses that need none refuse one.
REPRISE_API std::unique_ptr<ReferencedObjective> make_dpo(std::shared_ptr<Model> model,
                                                          std::optional<Reference> reference,
                                                          const PreferenceOptions& options = {});

}  // namespace reprise
