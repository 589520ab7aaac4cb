// The kernels of a run, as --attention and --deterministic ask for, and a check that they support
// the model.
#pragma once

#include "reprise/training/flags/flags.h"

#include <reprise/model/attention_kernels.h>
#include <reprise/model/model.h>

#include <string>

namespace reprise::app {

/// `generation`: gpu_generation(), or 0 on the CPU. cuDNN plans every new shape, which takes longer
/// than it saves, so "auto" chooses cuDNN only if all rows have the same length.
KernelChoice kernel_choice(const TrainingFlags& flags, int generation);

/// The attention kernel that runs for the trained model, such as "flash (deterministic)". Throws if
/// --attention names one that does not support its heads or data type.
std::string attention_of(const TrainingFlags& flags, const Model& model);

}  // namespace reprise::app
