// Computes advantages from rewards with the estimator of the run.
#pragma once

#include "train/online/completions.h"
#include "train/online/experience.h"

#include <reprise/io/json.h>
#include <reprise/train/online.h>

namespace reprise {

/// Fills in advantages and, with a critic, returns. `kl_coef`, the coefficient of the KL in the
/// reward, is adapted if options.kl_target is set. Adds the metrics objective/kl, kl_coef and
/// critic/explained_variance.
void add_advantages(const Completions& completions,
                    const RewardList& rewards,
                    const OnlineOptions& options,
                    Experience& experience,
                    double& kl_coef,
                    Json& metrics);

}  // namespace reprise
