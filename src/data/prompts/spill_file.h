// Texts stored on disk until they are needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::data {

/// A temporary file in $TMPDIR, or /tmp. It is unlinked at once, so it disappears however the
/// process ends, and child processes do not inherit it.
class SpillFile {
 public:
  SpillFile();
  ~SpillFile();
  SpillFile(SpillFile&& other) noexcept;
  SpillFile& operator=(SpillFile&&) = delete;

  /// Appends a text and returns its offset.
  uint64_t append(std::string_view text);
  /// Call it after the last append() and before the first read().
  void flush();
  /// Reads `bytes` bytes at `offset`. Thread-safe.
  std::string read(uint64_t offset, size_t bytes) const;

 private:
  int descriptor_ = -1;
  uint64_t written_ = 0;
  std::string pending_;  // not written yet
};

}  // namespace reprise::data
