// safetensors: the format that Hugging Face checkpoints are stored in.
//
// A file consists of an 8-byte length, a JSON header, and the bytes of the tensors. The header is
// not trusted: every length, offset, shape and dtype in it is checked against the file before any
// tensor is read.
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

/// An open file. Cheap to copy: copies share it.
class REPRISE_API SafetensorsFile {
 public:
  /// Throws c10::Error naming the file, the tensor or field, what was expected and what was found.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::vector<TensorInfo>& tensors() const;  ///< in file order
  const TensorInfo* find(const std::string& name) const;
  const std::map<std::string, std::string>& metadata() const;
  const std::filesystem::path& path() const;
  /// When it was opened: nobody but this user owned it or could write to it.
  bool is_private() const;

  /// A view of the mapped bytes, which it keeps mapped. It must not be written to. A copy if the
  /// tensor is small (below 1 MiB) or the file does not align it to its element size. A file that
  /// becomes shorter is a danger for views only: see end_on_mapped_file_faults().
  at::Tensor view(const TensorInfo& info) const;
  /// Reads the tensor into `target` (same shape, any dtype and device), in pieces if it has to be
  /// converted, so that the weights are never in memory twice.
  void copy_to(const TensorInfo& info, at::Tensor target) const;
  /// Copies target.numel() elements, starting at element `begin` of the flattened tensor. `target`
  /// must be contiguous.
  void copy_part_to(const TensorInfo& info, int64_t begin, const at::Tensor& target) const;

 private:
  struct Contents;
  std::shared_ptr<const Contents> contents_;
};

/// A checkpoint: one file, or several shards and their model.safetensors.index.json.
class REPRISE_API SafetensorsCheckpoint {
 public:
  /// `path` is a file, or a folder with `stem`.safetensors or `stem`.safetensors.index.json.
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
  const std::pair<size_t, const TensorInfo*>& locate(const std::string& name) const;

  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::pair<size_t, const TensorInfo*>> index_;  // file and tensor, by name
};

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
