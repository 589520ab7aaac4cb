// Writes safetensors, the format that Hugging Face checkpoints are stored in; tensor_file.h reads
// them.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace reprise {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Writes one file atomically. Tensors that are on a GPU or not contiguous are copied one at a
/// time. Adds {"format": "pt"} to metadata without a "format".
REPRISE_API void write_safetensors(const std::filesystem::path& path,
                                   const NamedTensors& tensors,
                                   std::map<std::string, std::string> metadata = {});

/// Writes `stem`.safetensors, or shards of at most `max_shard_bytes` and then their index. Removes
/// files of an earlier checkpoint of the same stem that are no longer part of it.
REPRISE_API void write_checkpoint(const std::filesystem::path& folder,
                                  const NamedTensors& tensors,
                                  uint64_t max_shard_bytes = uint64_t{5} << 30,
                                  const std::string& stem = "model");

/// A tensor that is computed when it is written, and freed afterwards.
struct LazyTensor {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  std::function<at::Tensor()> make;  ///< must return a tensor of this dtype and shape
};

/// Like write_safetensors and write_checkpoint, with one tensor in memory at a time.
REPRISE_API void stream_safetensors(const std::filesystem::path& path,
                                    const std::vector<LazyTensor>& tensors,
                                    std::map<std::string, std::string> metadata = {});
REPRISE_API void stream_checkpoint(const std::filesystem::path& folder,
                                   const std::vector<LazyTensor>& tensors,
                                   uint64_t max_shard_bytes = uint64_t{5} << 30,
                                   const std::string& stem = "model");

}  // namespace reprise
