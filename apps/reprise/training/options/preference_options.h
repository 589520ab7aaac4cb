// The flags of dpo's losses as options of the loss library.
#pragma once

#include "reprise/training/flags/flags.h"

#include <reprise/loss/preference.h>

namespace reprise::app {

PreferenceOptions preference_options(const TrainingFlags& flags);

}  // namespace reprise::app
