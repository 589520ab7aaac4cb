// safetensors: the format that Hugging Face checkpoints are stored in.
//
// A file is an 8-byte length, a JSON header, and the tensors' bytes. The header may come from
// anybody: every length, offset, shape and dtype in it is checked against the file before any
// tensor is touched.
#pragma once

#include <reprise/export.h>
#include <reprise/io/file.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise {

struct TensorInfo {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  ///< first byte, from the beginning of the file
  uint64_t end = 0;    ///< one past the last
};

/// One file, mapped. Cheap to copy: copies share the mapping.
class REPRISE_API SafetensorsFile {
 public:
  /// Throws c10::Error naming file, tensor or field, what was expected and what was found.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::vector<TensorInfo>& tensors() const;  ///< in the order of their bytes
  const TensorInfo* find(const std::string& name) const;
  const std::map<std::string, std::string>& metadata() const;
  const std::filesystem::path& path() const;

  /// A read-only view of the mapped bytes (not to be written to); it keeps the mapping alive. A
  /// copy where the file does not align the tensor to its element size.
  at::Tensor view(const TensorInfo& info) const;
  /// Copies into `target` (same shape; any dtype and device), then releases the mapped pages: the
  /// weights are never in memory twice.
  void copy_to(const TensorInfo& info, at::Tensor target) const;
  /// The same for the elements from `begin` on, as many as `target` has, counted as if the tensor
  /// were flat. `target` is contiguous.
  void copy_part_to(const TensorInfo& info, int64_t begin, const at::Tensor& target) const;

 private:
  struct Contents;
  std::shared_ptr<const Contents> contents_;
};

/// A whole checkpoint: one file, or shards with their model.safetensors.index.json.
class REPRISE_API SafetensorsCheckpoint {
 public:
  /// `path` is a folder (with `stem`.safetensors or `stem`.safetensors.index.json) or one file.
  explicit SafetensorsCheckpoint(const std::filesystem::path& path,
                                 const std::string& stem = "model");

  std::vector<std::string> names() const;  ///< sorted
  const TensorInfo* find(const std::string& name) const;
  at::Tensor view(const std::string& name) const;  ///< throws if there is no such tensor
  void copy_to(const std::string& name, at::Tensor target) const;
  void copy_part_to(const std::string& name, int64_t begin, const at::Tensor& target) const;
  uint64_t total_bytes() const;

 private:
  void open_shards(const std::filesystem::path& index);
  void refuse_extra(const std::filesystem::path& index) const;
  const std::pair<size_t, const TensorInfo*>& place_of(const std::string& name) const;

  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::pair<size_t, const TensorInfo*>> index_;
};

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Writes one file atomically, tensor by tensor: a tensor on a GPU or not contiguous is copied one
/// at a time. Metadata gets {"format": "pt"} if it has no "format".
REPRISE_API void write_safetensors(const std::filesystem::path& path,
                                   const NamedTensors& tensors,
                                   std::map<std::string, std::string> metadata = {});

/// Writes `stem`.safetensors, or shards of at most `max_shard_bytes` and, last, their index. Files
/// of an earlier checkpoint of the same stem that are no longer part of it are removed.
REPRISE_API void write_checkpoint(const std::filesystem::path& folder,
                                  const NamedTensors& tensors,
                                  uint64_t max_shard_bytes = uint64_t{5} << 30,
                                  const std::string& stem = "model");

/// A tensor that is made when its turn to be written comes, and dropped after it.
struct LazyTensor {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  std::function<at::Tensor()> make;  ///< gives a tensor of this dtype and shape
};

/// write_safetensors and write_checkpoint with one tensor in memory at a time.
REPRISE_API void stream_safetensors(const std::filesystem::path& path,
                                    const std::vector<LazyTensor>& tensors,
                                    std::map<std::string, std::string> metadata = {});
REPRISE_API void stream_checkpoint(const std::filesystem::path& folder,
                                   const std::vector<LazyTensor>& tensors,
                                   uint64_t max_shard_bytes = uint64_t{5} << 30,
                                   const std::string& stem = "model");

}  // namespace reprise
