// An append-only file for the logs of a process that may be killed at any time: when append()
// returns, all bytes are in the file; when it throws, none of them are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace reprise::report {

class AppendFile {
 public:
  enum class Mode : uint8_t { Create, Append };

  /// Mode::Create refuses an existing file; Mode::Append creates the file if necessary.
  AppendFile(std::filesystem::path path, Mode mode);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::string_view bytes);
  /// Removes all bytes after the first `size`.
  void truncate(uint64_t size);

  /// Waits until everything is on disk. What a killed process wrote is in the file without it; a
  /// power failure may take that.
  void sync();

  const std::filesystem::path& path() const { return path_; }
  uint64_t size() const { return size_; }

 private:
  std::filesystem::path path_;
  int descriptor_;
  uint64_t size_ = 0;
};

}  // namespace reprise::report
