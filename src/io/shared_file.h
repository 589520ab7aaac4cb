// A file that another process made, under its temporary name and in its full length, and that
// several write into, each at places of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace reprise::detail {

class SharedFile {
 public:
  /// Throws if `rank` does not see the file, or sees another one by its name.
  SharedFile(std::filesystem::path path, uint64_t bytes, int64_t rank);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  /// Waits until what was written is on disk.
  void sync();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace reprise::detail
