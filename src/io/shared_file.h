// A file that one process created, under its temporary name and with its full length, and that
// several processes write to, each to ranges of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace reprise::io {

class SharedFile {
 public:
  /// Throws, naming `rank`, if the file does not exist or has another length: the processes do not
  /// share the folder.
  SharedFile(std::filesystem::path path, uint64_t bytes, int64_t rank);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  /// Waits until everything written is on disk.
  void sync();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace reprise::io
