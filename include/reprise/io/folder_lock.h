// A folder that one process at a time may write to.
#pragma once

#include <reprise/export.h>

#include <filesystem>
#include <string>

namespace reprise {

/// Holds an advisory lock on the file `.reprise.lock` of an existing folder. The kernel releases it
/// when the process ends, however it ends. On network file systems it holds between machines where
/// the file system has locks (NFS version 4, CephFS, Lustre mounted with flock).
class REPRISE_API FolderLock {
 public:
  /// Throws, naming host and process of the holder, if another one has the lock, also in this
  /// process.
  explicit FolderLock(const std::filesystem::path& folder);
  /// Removes the file.
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// Why there is no lock; empty if there is one. Not an error: some file systems have no locks.
  const std::string& missing() const { return missing_; }

 private:
  std::filesystem::path file_;
  int descriptor_ = -1;
  std::string missing_;
};

}  // namespace reprise
