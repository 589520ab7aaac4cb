// A folder that appears under its name only when it is complete.
#pragma once

#include <reprise/export.h>

#include <filesystem>

namespace reprise {

class REPRISE_API AtomicFolder {
 public:
  /// Throws if `path` exists and is not an empty folder: nothing is overwritten. If it is a link to
  /// an empty folder, the link stays and its target is replaced.
  explicit AtomicFolder(const std::filesystem::path& path);
  /// Removes everything unless commit() was called.
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  /// The temporary folder to write to, next to the final one.
  const std::filesystem::path& path() const { return temporary_; }
  void commit();

 private:
  std::filesystem::path final_;
  std::filesystem::path temporary_;
};

}  // namespace reprise
