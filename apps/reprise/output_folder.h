// A folder that appears under its name only when it is whole.
#pragma once

#include <filesystem>

namespace reprise::app {

class OutputFolder {
 public:
  /// Throws if `path` is there and not empty: nothing is overwritten. A link to an empty folder
  /// stays, and the folder that it names is filled.
  explicit OutputFolder(const std::filesystem::path& path);
  /// Without commit() nothing stays.
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  /// Where to write: beside the final place.
  const std::filesystem::path& path() const { return temporary_; }
  void commit();

 private:
  std::filesystem::path final_;
  std::filesystem::path temporary_;
};

}  // namespace reprise::app
