// A folder that appears under its name only when it is whole.
#pragma once

#include <reprise/export.h>

#include <filesystem>

namespace reprise {

class REPRISE_API AtomicFolder {
 public:
  /// Throws if `path` is there and not empty: nothing is overwritten. A link to an empty folder
  /// stays, and the folder that it names is filled.
  explicit AtomicFolder(const std::filesystem::path& path);
  /// Without commit() nothing stays.
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  /// Where to write: beside the final place.
  const std::filesystem::path& path() const { return temporary_; }
  void commit();

 private:
  std::filesystem::path final_;
  std::filesystem::path temporary_;
};

}  // namespace reprise
