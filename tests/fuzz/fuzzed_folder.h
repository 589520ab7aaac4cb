// A folder for files that a fuzzer writes, of this process alone and gone with it: in memory where
// the system has such a place.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

namespace reprise::testing {

class FuzzedFolder {
 public:
  explicit FuzzedFolder(const std::string& name) : path_(parent() / (name + suffix())) {
    ::umask(022);  // a file that the group may write to is not trusted
    std::filesystem::create_directories(path_);
  }
  ~FuzzedFolder() { std::filesystem::remove_all(path_); }
  FuzzedFolder(const FuzzedFolder&) = delete;
  FuzzedFolder& operator=(const FuzzedFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  void write(const std::filesystem::path& name, std::span<const uint8_t> bytes) const {
    std::ofstream(path_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }

 private:
  static std::filesystem::path parent() {
    const std::filesystem::path memory = "/dev/shm";
    return ::access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
  }
  static std::string suffix() { return "." + std::to_string(::getpid()); }

  std::filesystem::path path_;
};

/// Cuts the input at its zero bytes, which no text file has, into so many parts: the last is the
/// rest.
template <size_t N>
std::array<std::span<const uint8_t>, N> parts_of(std::span<const uint8_t> input) {
  std::array<std::span<const uint8_t>, N> parts;
  for (size_t i = 0; i + 1 < N; ++i) {
    const auto end = std::find(input.begin(), input.end(), uint8_t{0});
    parts[i] = input.first(static_cast<size_t>(end - input.begin()));
    input = input.subspan(end == input.end() ? input.size() : parts[i].size() + 1);
  }
  parts.back() = input;
  return parts;
}

}  // namespace reprise::testing
