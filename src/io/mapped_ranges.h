// Which files are mapped where, for the handler of SIGBUS: a mapped file that became shorter, or
// whose disk fails, shows as that signal when a page of it is touched.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace reprise::io {

/// One mapped file. Entries are never freed, only used again: the handler reads them without a
/// lock.
struct MappedRange {
  std::atomic<uintptr_t> begin = 0;  ///< 0: not in use
  std::atomic<uintptr_t> end = 0;
  std::array<char, 512> name{};  ///< of the file, or its end if it is longer
  size_t name_size = 0;
  MappedRange* next = nullptr;
};

/// Called after mapping and before unmapping.
MappedRange* add_mapped_range(const void* begin, size_t bytes, std::string_view name);
void remove_mapped_range(MappedRange* range);

}  // namespace reprise::io
