// Which kernels a run takes, by --attention and --deterministic, and which of them then serve its
// model: a flag that names one which cannot is refused.
#pragma once

#include "reprise/training/flags.h"

#include <reprise/attention_kernels.h>
#include <reprise/model/model.h>

#include <string>

namespace reprise::app {

/// `generation`: gpu_generation(), or 0 if the run is on the CPU. cuDNN plans every new shape,
/// which takes longer than it saves, so "auto" is cuDNN only where all rows have one length.
KernelChoice kernel_choice(const TrainingFlags& flags, int generation);

/// The attention of the trained model, as it is told: "flash (deterministic)". Throws if
/// --attention names one that does not take its heads or its type.
std::string attention_of(const TrainingFlags& flags, const Model& model);

}  // namespace reprise::app
