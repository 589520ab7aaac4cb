// Logs what this process writes below a folder, in the order in which it does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace reprise::testing {

/// Files and folders are numbered in the order in which they are created; 0 is the logged folder.
/// Numbers stay when names change.
struct FileOperation {
  enum class Kind : uint8_t {
    Link,      ///< `folder` gets the entry `name`: the new `file`, which is_folder or not
    Unlink,    ///< `folder` loses the entry `name`
    Rename,    ///< the entry `name` of `folder` becomes `to_name` of `to_folder`
    Write,     ///< `bytes` at `offset` of `file`
    Truncate,  ///< `file` gets the length `offset`
    Sync,      ///< what was done to `file`, or to the entries of that folder, is on disk
    Note,      ///< `name`: a promise that the program makes
  };
  Kind kind;
  int file = -1;
  int folder = -1;
  std::string name;
  int to_folder = -1;
  std::string to_name;
  bool is_folder = false;
  uint64_t offset = 0;
  std::string bytes;
};

/// In its scope, operations below `root` are logged, of all threads. There is one at a time, and
/// the folder is empty at its begin.
class FileLog {
 public:
  explicit FileLog(const std::filesystem::path& root);
  ~FileLog();
  FileLog(const FileLog&) = delete;
  FileLog& operator=(const FileLog&) = delete;

  /// Logs that something was promised: from here on it must not be lost.
  void note(const std::string& what);
  std::vector<FileOperation> operations() const;
};

}  // namespace reprise::testing
