// From rewards to advantages, by the estimator that was asked for.
#pragma once

#include "train/answers.h"
#include "train/experience.h"

#include <reprise/io/json.h>
#include <reprise/train/online.h>

namespace reprise {

/// Fills in advantages and, with a critic, returns. `kl_coef` is the coefficient of the KL in the
/// reward, which may adapt to what the KL is. Figures: objective/kl, kl_coef,
/// critic/explained_variance.
void add_advantages(const Answers& answers,
                    const RewardList& rewards,
                    const OnlineOptions& options,
                    Experience& experience,
                    double& kl_coef,
                    Json& figures);

}  // namespace reprise
