// Files of named tensors: safetensors, and what torch.save wrote. A file's first bytes tell which.
//
// Nothing in a file is trusted: every length, offset, shape and dtype is checked against its size
// before any tensor is read, and no pickle is executed.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
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
class REPRISE_API TensorFile {
 public:
  /// Throws c10::Error naming the file, the tensor or field, what was expected and what was found.
  explicit TensorFile(const std::filesystem::path& path);

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
class REPRISE_API TensorCheckpoint {
 public:
  /// `path` is a file, or a folder with `stem`.safetensors or `stem`.safetensors.index.json.
  explicit TensorCheckpoint(const std::filesystem::path& path, const std::string& stem = "model");

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

  std::vector<TensorFile> files_;
  std::map<std::string, std::pair<size_t, const TensorInfo*>> index_;  // file and tensor, by name
};

}  // namespace reprise
