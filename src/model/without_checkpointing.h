// Forward passes without gradients (reference, teacher, reward, rollout, evaluation), which must
// not pay for checkpointing.
#pragma once

#include <reprise/export.h>

#include <functional>

namespace reprise {

/// Runs a pass without gradients and checks that it entered no checkpointed region. `what` names
/// the pass in the error message.
REPRISE_API void without_checkpointing(const char* what, const std::function<void()>& pass);

}  // namespace reprise
