#pragma once

#include <reprise/io/file.h>

#include <filesystem>
#include <map>
#include <string>

namespace reprise::testing {

/// The contents of all files in `folder`, by their paths inside it. Not logs.json, which has the
/// checksum of times.
inline std::map<std::string, std::string> files_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().filename() != "logs.json") {
      files[std::filesystem::relative(entry.path(), folder)] = read_file(entry.path());
    }
  }
  return files;
}

}  // namespace reprise::testing
