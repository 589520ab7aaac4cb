// Opens the models of a training command and applies LoRA, freezing, checkpointing and sharding as
// the flags ask for.
#pragma once

#include "reprise/progress_line.h"
#include "reprise/training/flags/flags.h"
#include "reprise/training/run/run_world.h"

#include <reprise/model/lora.h>
#include <reprise/model/model.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace reprise::app {

struct TrainedModel {
  std::shared_ptr<Model> model;
  std::optional<LoraConfig> lora;  ///< of its adapters; std::nullopt: all weights are trained
  std::string source;              ///< its folder
  std::string tokenizer;           ///< the folder with its tokenizer
  std::string chat_template;       ///< text that replaces the tokenizer's template; empty: none
  std::string card;                ///< README.md: see model_card()
};

/// The part of --model that is trained, and of the other models of a command.
ModelPart trained_part(const TrainingFlags& flags);
ModelPart other_part(const TrainingFlags& flags);

/// `keeps_reference`: also keep a copy of the adapter that is trained further.
TrainedModel open_trained_model(const TrainingFlags& flags,
                                bool keeps_reference,
                                const RunWorld& world,
                                ProgressLine& progress);

/// The critic of ppo, with a value head: that of a reward model, or a new one.
TrainedModel open_critic(const std::string& folder,
                         const TrainingFlags& flags,
                         const RunWorld& world,
                         ProgressLine& progress);

/// A frozen model: a reference, a teacher or a reward model. An adapter is merged into its base.
std::shared_ptr<Model> open_frozen_model(const std::string& folder,
                                         HeadKind head,
                                         const TrainingFlags& flags,
                                         const RunWorld& world,
                                         ProgressLine& progress);

/// Writes the model or its adapter, with the tokenizer, its chat template, a card and the
/// configuration. All processes call it.
void save_trained_model(const TrainedModel& trained, const std::filesystem::path& folder);

}  // namespace reprise::app
