// A folder that appears under its name only when it is complete.
#pragma once

#include <reprise/export.h>

#include <filesystem>

namespace reprise {

class REPRISE_API AtomicFolder {
 public:
  /// Throws if `path` exists and is not an empty folder: nothing is overwritten. If it is a link to
  /// an empty folder, the link stays and its target is replaced. Removes what killed processes left
  /// of earlier attempts at the same path.
  explicit AtomicFolder(const std::filesystem::path& path);
  /// Removes everything unless commit() was called.
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  /// The temporary folder to write to, next to the final one: <name>.partial-<random number>.
  const std::filesystem::path& path() const { return temporary_; }
  /// Waits until everything is on disk, then renames.
  void commit();

 private:
  void make_temporary();

  std::filesystem::path final_;
  std::filesystem::path temporary_;
  int lock_ = -1;
};

}  // namespace reprise
