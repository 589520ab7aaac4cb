// Where the bytes of a safetensors file go, and writing one in two steps, so that several files can
// appear together.
#pragma once

#include <reprise/io/file.h>
#include <reprise/io/safetensors.h>

#include <map>
#include <string>
#include <vector>

namespace reprise::detail {

/// The bytes of a file, whoever writes them.
struct FileLayout {
  std::string head;                 ///< what comes before the tensors
  std::vector<TensorInfo> tensors;  ///< in the order of their bytes, which they tile
  uint64_t bytes = 0;               ///< of the whole file
};

/// Of tensors with these names, dtypes and shapes. Metadata gets {"format": "pt"} if it has no
/// "format".
FileLayout layout_of(std::vector<TensorInfo> tensors, std::map<std::string, std::string> metadata);

/// Writes everything but does not commit: `file` is whole, under its temporary name.
void fill_safetensors(AtomicFile& file,
                      const std::vector<const LazyTensor*>& tensors,
                      std::map<std::string, std::string> metadata);

/// The same tensors, already made.
std::vector<LazyTensor> lazy(const NamedTensors& tensors);

}  // namespace reprise::detail
