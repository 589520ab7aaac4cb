// State that comes back from a file: all of it or none, and only what was saved from the same
// tensors.
#pragma once

#include <reprise/io/safetensors.h>

namespace reprise {

/// Throws unless `file` has the names of `targets`, no other, each with its target's shape and
/// dtype. The message names the first tensor that is wrong and what it was compared with.
void check_holds_exactly(const SafetensorsFile& file, const NamedTensors& targets);

/// Copies every target's tensor into it, after check_holds_exactly().
void copy_state(const SafetensorsFile& file, const NamedTensors& targets);

}  // namespace reprise
