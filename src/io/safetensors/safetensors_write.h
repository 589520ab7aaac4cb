// The layout of a safetensors file, and writing one in two steps, so that several files can be
// committed together.
#pragma once

#include <reprise/io/file.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>

#include <map>
#include <string>
#include <vector>

namespace reprise::io {

struct FileLayout {
  std::string head;                 ///< the bytes before the tensors
  std::vector<TensorInfo> tensors;  ///< in file order; they tile the rest
  uint64_t bytes = 0;               ///< length of the file
};

/// The layout of tensors with these names, dtypes and shapes. Adds {"format": "pt"} to metadata
/// without a "format".
FileLayout layout_of(std::vector<TensorInfo> tensors, std::map<std::string, std::string> metadata);

/// Writes everything but does not commit: `file` is complete under its temporary name.
void fill_safetensors(AtomicFile& file,
                      const std::vector<const LazyTensor*>& tensors,
                      std::map<std::string, std::string> metadata);

/// The tensors as LazyTensors.
std::vector<LazyTensor> lazy(const NamedTensors& tensors);

}  // namespace reprise::io
