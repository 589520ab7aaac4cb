// A file that only grows, for logs of a process that may be killed at any time: what append() was
// given is with the kernel when it returns, whole or (when it throws) not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace reprise::detail {

class AppendFile {
 public:
  enum class Start : uint8_t { NewFile, AtTheEnd };

  /// Start::NewFile refuses a file that is there; Start::AtTheEnd makes it unless it is there.
  AppendFile(std::filesystem::path path, Start start);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::string_view bytes);
  /// Drops all bytes from `size` on.
  void cut(uint64_t size);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_;
  uint64_t size_ = 0;
};

}  // namespace reprise::detail
