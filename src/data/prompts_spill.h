// Texts that wait on disk until they are asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::detail {

/// A temporary file in the system's folder for such ($TMPDIR, else /tmp). It has no name, so it is
/// gone with this object however the process ends, and programs started later do not inherit it.
class SpillFile {
 public:
  SpillFile();
  ~SpillFile();
  SpillFile(SpillFile&& other) noexcept;
  SpillFile& operator=(SpillFile&&) = delete;

  /// Adds a text; returns where it begins.
  uint64_t append(std::string_view text);
  /// Call it when all texts are there, before the first read().
  void flush();
  /// `bytes` from `offset` on. May be called by several threads.
  std::string read(uint64_t offset, size_t bytes) const;

 private:
  int descriptor_ = -1;
  uint64_t written_ = 0;
  std::string pending_;  // not written yet
};

}  // namespace reprise::detail
