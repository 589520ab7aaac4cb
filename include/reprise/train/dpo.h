// Preference optimisation on pairs: DPO and its family.
#pragma once

#include <reprise/export.h>
#include <reprise/loss/preference.h>
#include <reprise/train/reference.h>

#include <memory>
#include <optional>

namespace reprise {

/// `reference` is given if needs_reference(options), unless use_precomputed() follows; and only
/// then.
REPRISE_API std::unique_ptr<ReferencedObjective> make_dpo(std::shared_ptr<Model> model,
                                                          std::optional<Reference> reference,
                                                          const PreferenceOptions& options = {});

}  // namespace reprise
