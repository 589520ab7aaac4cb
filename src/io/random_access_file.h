// A file that is read at any offset, for files whose bytes are copied anyway: models, records.
#pragma once

#include "io/descriptor.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace reprise::io {

/// Immutable; may be shared by threads.
class RandomAccessFile {
 public:
  /// Throws, naming the path, unless it is a regular file that can be read.
  explicit RandomAccessFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  uint64_t size() const { return size_; }  ///< when it was opened
  /// When it was opened: nobody but this user owned it or could write to it.
  bool is_private() const { return is_private_; }

  /// Fills `into`. Throws, naming the file, if it has become too short for that.
  void read(uint64_t offset, std::span<std::byte> into) const;
  std::string read_text(uint64_t offset, size_t bytes) const;

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
  uint64_t size_ = 0;
  bool is_private_ = false;
};

}  // namespace reprise::io
