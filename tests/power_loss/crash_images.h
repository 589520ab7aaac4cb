// What a disk may hold after a power failure, given what was written until then.
//
// Only fsync promises anything. Entries of a folder reach the disk in their order, but any number
// of the last ones may be missing that no fsync of the folder followed. Of what was written to a
// file after its last fsync, nothing, a part, zeros or all may be there, also if the entry is.
#pragma once

#include "power_loss/file_log.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace reprise::testing {

struct CrashImage {
  std::map<std::string, std::string> files;  ///< content, by path
  std::set<std::string> folders;
  std::set<std::string> promises;  ///< of the program, until then

  bool operator<(const CrashImage& other) const;
  /// Writes it into an empty folder.
  void write_to(const std::filesystem::path& folder) const;
};

/// The different images after each `stride`-th operation: all four ways of files with all, none and
/// random numbers of the missing entries.
std::vector<CrashImage> crash_images(const std::vector<FileOperation>& operations,
                                     size_t stride,
                                     uint64_t seed);

}  // namespace reprise::testing
