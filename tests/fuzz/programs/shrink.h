// Makes a failing program small: instructions are deleted, blocks unwrapped, options and shapes
// simplified, as long as it still fails.
#pragma once

#include "fuzz/programs/program.h"

#include <cstddef>
#include <functional>

namespace reprise::fuzz {

/// Returns the smallest program found in which `still_fails`, which is called at most `most_runs`
/// times. `program` itself must fail.
Program shrink(Program program,
               const std::function<bool(const Program&)>& still_fails,
               size_t most_runs = 4000);

}  // namespace reprise::fuzz
