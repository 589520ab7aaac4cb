// Writing one safetensors file in two steps, so that several files can appear together.
#pragma once

#include <reprise/io/file.h>
#include <reprise/io/safetensors.h>

#include <map>
#include <string>
#include <vector>

namespace reprise::detail {

/// Writes everything but does not commit: `file` is whole, under its temporary name.
void fill_safetensors(AtomicFile& file,
                      const std::vector<const LazyTensor*>& tensors,
                      std::map<std::string, std::string> metadata);

/// The same tensors, already made.
std::vector<LazyTensor> lazy(const NamedTensors& tensors);

}  // namespace reprise::detail
