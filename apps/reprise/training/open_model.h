// The model that a training command trains: loaded, adapted, frozen and checkpointed as asked, and
// spread over the processes of the run.
#pragma once

#include "reprise/progress_line.h"
#include "reprise/training/flags.h"
#include "reprise/training/run_world.h"

#include <reprise/model/lora.h>
#include <reprise/model/model.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace reprise::app {

struct TrainedModel {
  std::shared_ptr<Model> model;
  std::optional<LoraConfig> lora;  ///< of its adapters; none: it is trained whole
  std::string source;              ///< the folder that it came from
};

/// `keeps_reference`: a continued adapter is also kept as it is now.
TrainedModel open_trained_model(const TrainingFlags& flags,
                                bool keeps_reference,
                                const RunWorld& world,
                                ProgressLine& progress);

/// The critic of ppo, with a value head: that of a reward model, or a new one.
TrainedModel open_critic(const std::string& folder,
                         const TrainingFlags& flags,
                         const RunWorld& world,
                         ProgressLine& progress);

/// A frozen model beside it: a reference, a teacher, a reward model.
std::shared_ptr<Model> open_frozen_model(const std::string& folder,
                                         HeadKind head,
                                         const TrainingFlags& flags,
                                         const RunWorld& world,
                                         ProgressLine& progress);

/// Writes the model, or its adapter, with what belongs to it.
void save_trained_model(const TrainedModel& trained, const std::filesystem::path& folder);

}  // namespace reprise::app
