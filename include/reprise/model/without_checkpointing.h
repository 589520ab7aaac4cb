// Passes that need no gradient (reference, teacher, reward, rollout, evaluation) and so must not
// pay for checkpointing either.
#pragma once

#include <reprise/export.h>

#include <functional>

namespace reprise {

/// Runs a pass that must not be checkpointed: without gradients, and checked to have entered no
/// region. `what` is for the message.
REPRISE_API void without_checkpointing(const char* what, const std::function<void()>& pass);

}  // namespace reprise
