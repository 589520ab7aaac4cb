// The edits that the shrinker tries. Each makes a program smaller or plainer, so trying them ends.
// An edit need not keep the program valid: one that fails to run without regions is not taken.
#pragma once

#include "fuzz/programs/program.h"

#include <functional>
#include <vector>

namespace reprise::fuzz {

/// Changes a program; false: there was nothing to change.
using Edit = std::function<bool(Program&)>;

// Edits of the instruction number `at`, counted as in for_each_instruction. The last number, one
// more than the program has, is the program as a whole.

/// Deletes the instruction. Who reads its results reads one of its inputs instead.
std::vector<Edit> deletions(const Program& program, size_t at);
/// Replaces a region, loop or scope by its body; an argument becomes a capture.
std::vector<Edit> unwrappings(const Program& program, size_t at);
/// Options and numbers become the defaults, shapes become small.
std::vector<Edit> simplifications(const Program& program, size_t at);
/// An input becomes a leaf, so that what computed it can be deleted.
std::vector<Edit> redirections(const Program& program, size_t at);

}  // namespace reprise::fuzz
