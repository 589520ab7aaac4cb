// The flags of dpo's losses as options of the loss library.
#pragma once

#include "reprise/training/flags.h"

#include <reprise/loss/preference.h>

namespace reprise::app {

/// Of flags that passed check_effects().
PreferenceOptions preference_options(const TrainingFlags& flags);

}  // namespace reprise::app
