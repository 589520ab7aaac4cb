// Loading optimizer state from a file: all of it or nothing, and only if it was saved from the same
// tensors.
#pragma once

#include <reprise/dist/world.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>
#include <reprise/io/tensor_part.h>

#include <string>
#include <unordered_set>
#include <vector>

namespace reprise {

/// Parts that are whole tensors. Their values keep their shape, because state is allocated like
/// them.
std::vector<TensorPart> whole_parts(const NamedTensors& tensors);

/// The names of the parts of all processes. A collective.
std::unordered_set<std::string> names_everywhere(const std::vector<TensorPart>& parts,
                                                 const World& world);

/// Throws unless `file` has the tensors that `targets` are parts of, with their shapes and dtypes,
/// and no tensor that is not in `names`. The message names the first difference.
void check_holds_exactly(const TensorFile& file,
                         const std::vector<TensorPart>& targets,
                         const std::unordered_set<std::string>& names);

/// Copies the parts from the file into `targets`. Call check_holds_exactly() first.
void copy_state(const TensorFile& file, const std::vector<TensorPart>& targets);

}  // namespace reprise
