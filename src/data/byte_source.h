// Bytes in sequence, from a file or through a decompressor.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace reprise::detail {

class ByteSource {
 public:
  ByteSource() = default;
  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// Fills the front of `buffer` and says how much; 0 at the end only. `buffer` is not empty.
  virtual size_t read(std::span<char> buffer) = 0;
  /// How much of the file has been read, from 0 to 1.
  virtual double fraction() const = 0;
};

/// The bytes of a regular file, decompressed if they are gzip's. Throws naming the path.
std::unique_ptr<ByteSource> open_bytes(const std::filesystem::path& path);

}  // namespace reprise::detail
