#include "reprise/training/setup/open_reference.h"

#include <optional>
#include <string>

namespace reprise::app {

Reference open_reference(const TrainingFlags& flags,
                         const TrainedModel& trained,
                         const RunWorld& world,
                         ProgressLine& progress) {
  if (trained.lora && flags.ref_model.empty()) {
    return Reference::without_adapters(trained.model);
  }
  std::optional<ReferenceSync> sync;
  if (flags.sync_ref_model) {
    sync = ReferenceSync{flags.ref_model_mixup_alpha, flags.ref_model_sync_steps};
  }
  const std::string folder = flags.ref_model.empty() ? flags.model : flags.ref_model;
  progress.print("reference: " + folder);
  return Reference(open_frozen_model(folder, HeadKind::CausalLm, flags, world, progress), sync);
}

}  // namespace reprise::app
