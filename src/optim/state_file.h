// State that comes back from a file: all of it or none, and only what was saved from the same
// tensors.
#pragma once

#include <reprise/dist/world.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_part.h>

#include <string>
#include <unordered_set>
#include <vector>

namespace reprise {

/// Tensors of which this process has all. Their values are not flat: state is made like them.
std::vector<TensorPart> whole_parts(const NamedTensors& tensors);

/// The names of the parts that any process has. A collective.
std::unordered_set<std::string> names_everywhere(const std::vector<TensorPart>& parts,
                                                 const World& world);

/// Throws unless `file` has the tensors that `targets` are parts of, with their shapes and dtypes,
/// and none but `names`. The message names the first that is wrong and what it was compared with.
void check_holds_exactly(const SafetensorsFile& file,
                         const std::vector<TensorPart>& targets,
                         const std::unordered_set<std::string>& names);

/// Copies every target's part of its tensor into it, after check_holds_exactly().
void copy_state(const SafetensorsFile& file, const std::vector<TensorPart>& targets);

}  // namespace reprise
