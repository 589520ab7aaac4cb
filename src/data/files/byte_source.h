// A stream of bytes, from a file or a decompressor.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace reprise::data {

class ByteSource {
 public:
  ByteSource() = default;
  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// Reads into the front of `buffer`, which is not empty. Returns the number of bytes; 0 only at
  /// the end.
  virtual size_t read(std::span<char> buffer) = 0;
  /// How much of the file has been read, from 0 to 1.
  virtual double fraction() const = 0;
};

/// Opens a regular file and decompresses it if it is gzipped. Errors name the path.
std::unique_ptr<ByteSource> open_bytes(const std::filesystem::path& path);

}  // namespace reprise::data
