// The functions at the end take the place of the C library's in this program and in the libraries
// that it loads.
#include "power_loss/file_log.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace reprise::testing {
namespace {

namespace fs = std::filesystem;
using Kind = FileOperation::Kind;

/// A folder and the name of an entry in it.
struct Entry {
  int folder;
  std::string name;
};

class Recorder {
 public:
  explicit Recorder(fs::path root) : root_(std::move(root)) { numbers_["."] = 0; }

  /// The path below the root; std::nullopt if it is elsewhere.
  std::optional<std::string> inside(int folder, const char* path) const {
    fs::path whole(path);
    if (whole.is_relative()) {
      whole = (folder == AT_FDCWD ? fs::current_path() : opened_path(folder)) / whole;
    }
    auto relative = whole.lexically_normal().lexically_relative(root_).string();
    return relative.empty() || relative.starts_with("..") ? std::nullopt
                                                          : std::optional(std::move(relative));
  }

  bool knows(const std::string& path) const { return numbers_.contains(path); }

  void link(const std::string& path, bool is_folder) {
    const Entry entry = entry_of(path);
    numbers_[path] = next_;
    add({.kind = Kind::Link,
         .file = next_++,
         .folder = entry.folder,
         .name = entry.name,
         .is_folder = is_folder});
  }
  void unlink(const std::string& path) {
    const Entry entry = entry_of(path);
    numbers_.erase(path);
    add({.kind = Kind::Unlink, .folder = entry.folder, .name = entry.name});
  }
  void rename(const std::string& from, const std::string& to) {
    const Entry before = entry_of(from), after = entry_of(to);
    std::map<std::string, int> moved;
    for (auto it = numbers_.begin(); it != numbers_.end();) {
      const bool moves = it->first == from || it->first.starts_with(from + "/");
      const bool is_replaced = it->first == to || it->first.starts_with(to + "/");
      if (moves) {
        moved[to + it->first.substr(from.size())] = it->second;
      }
      it = moves || is_replaced ? numbers_.erase(it) : std::next(it);
    }
    numbers_.merge(moved);
    add({.kind = Kind::Rename,
         .folder = before.folder,
         .name = before.name,
         .to_folder = after.folder,
         .to_name = after.name});
  }

  void opened(int descriptor, const std::string& path) { files_[descriptor] = numbers_.at(path); }
  void closed(int descriptor) { files_.erase(descriptor); }
  std::optional<int> file_of(int descriptor) const {
    const auto found = files_.find(descriptor);
    return found == files_.end() ? std::nullopt : std::optional(found->second);
  }
  void add(FileOperation operation) { operations_.push_back(std::move(operation)); }
  const std::vector<FileOperation>& operations() const { return operations_; }

 private:
  static fs::path opened_path(int descriptor) {
    return fs::read_symlink("/proc/self/fd/" + std::to_string(descriptor));
  }
  Entry entry_of(const std::string& path) const {
    const fs::path parent = fs::path(path).parent_path();
    return {numbers_.at(parent.empty() ? "." : parent.string()), fs::path(path).filename()};
  }

  fs::path root_;
  std::map<std::string, int> numbers_;  // by path below the root
  std::map<int, int> files_;            // by descriptor
  int next_ = 1;
  std::vector<FileOperation> operations_;
};

std::recursive_mutex mutex;
std::optional<Recorder> recorder;
std::atomic<bool> is_recording{false};

/// Calls `log(recorder)` if one is there.
template <class Log>
void record(const Log& log) {
  if (is_recording.load()) {
    const std::scoped_lock lock(mutex);
    const int saved = errno;
    if (recorder) {
      log(*recorder);
    }
    errno = saved;
  }
}

template <class Function>
Function* original(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

int open_logged(int folder, const char* path, int flags, mode_t mode) {
  const int descriptor =
      original<int(int, const char*, int, ...)>("openat")(folder, path, flags, mode);
  record([&](Recorder& log) {
    const auto name = descriptor < 0 ? std::nullopt : log.inside(folder, path);
    if (!name) {
      return;
    }
    if (!log.knows(*name)) {
      log.link(*name, /*is_folder=*/false);
    }
    log.opened(descriptor, *name);
    if ((flags & O_TRUNC) != 0) {
      log.add({.kind = Kind::Truncate, .file = *log.file_of(descriptor)});
    }
  });
  return descriptor;
}

int sync_logged(const char* name, int descriptor) {
  const int result = original<int(int)>(name)(descriptor);
  record([&](Recorder& log) {
    if (const auto file = log.file_of(descriptor); file && result == 0) {
      log.add({.kind = Kind::Sync, .file = *file});
    }
  });
  return result;
}

int removed(int result, int folder, const char* path) {
  record([&](Recorder& log) {
    if (const auto name = log.inside(folder, path); result == 0 && name && log.knows(*name)) {
      log.unlink(*name);
    }
  });
  return result;
}

void written(int descriptor, const void* bytes, ssize_t count, off_t offset) {
  record([&](Recorder& log) {
    if (const auto file = log.file_of(descriptor); file && count > 0) {
      log.add({.kind = Kind::Write,
               .file = *file,
               .offset = static_cast<uint64_t>(offset),
               .bytes = {static_cast<const char*>(bytes), static_cast<size_t>(count)}});
    }
  });
}

}  // namespace

FileLog::FileLog(const fs::path& root) {
  recorder.emplace(fs::canonical(root));
  is_recording = true;
}

FileLog::~FileLog() {
  is_recording = false;
  recorder.reset();
}

void FileLog::note(const std::string& what) {
  record([&](Recorder& log) { log.add({.kind = Kind::Note, .name = what}); });
}

std::vector<FileOperation> FileLog::operations() const {
  const std::scoped_lock lock(mutex);
  return recorder->operations();
}

}  // namespace reprise::testing

#define REPRISE_REPLACES __attribute__((visibility("default")))

extern "C" {

namespace log = reprise::testing;

REPRISE_REPLACES int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return log::open_logged(AT_FDCWD, path, flags, mode);
}

REPRISE_REPLACES int openat(int folder, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return log::open_logged(folder, path, flags, mode);
}

REPRISE_REPLACES int close(int descriptor) {
  log::record([&](log::Recorder& recorder) { recorder.closed(descriptor); });
  return log::original<int(int)>("close")(descriptor);
}

REPRISE_REPLACES ssize_t write(int descriptor, const void* bytes, size_t count) {
  const ssize_t done =
      log::original<ssize_t(int, const void*, size_t)>("write")(descriptor, bytes, count);
  if (done > 0 && log::is_recording.load()) {
    log::written(descriptor, bytes, done, lseek(descriptor, 0, SEEK_CUR) - done);
  }
  return done;
}

REPRISE_REPLACES ssize_t pwrite(int descriptor, const void* bytes, size_t count, off_t offset) {
  const ssize_t done = log::original<ssize_t(int, const void*, size_t, off_t)>("pwrite")(
      descriptor, bytes, count, offset);
  log::written(descriptor, bytes, done, offset);
  return done;
}

REPRISE_REPLACES ssize_t sendfile(int to, int from, off_t* offset, size_t count) noexcept {
  // As copies that the log can see.
  std::array<char, 65536> bytes{};
  const size_t wanted = std::min(count, bytes.size());
  const ssize_t got = offset == nullptr ? read(from, bytes.data(), wanted)
                                        : pread(from, bytes.data(), wanted, *offset);
  if (got > 0 && offset != nullptr) {
    *offset += got;
  }
  return got <= 0 ? got : write(to, bytes.data(), static_cast<size_t>(got));
}

REPRISE_REPLACES int ftruncate(int descriptor, off_t length) noexcept {
  const int result = log::original<int(int, off_t)>("ftruncate")(descriptor, length);
  log::record([&](log::Recorder& recorder) {
    if (const auto file = recorder.file_of(descriptor); file && result == 0) {
      recorder.add(
          {.kind = log::Kind::Truncate, .file = *file, .offset = static_cast<uint64_t>(length)});
    }
  });
  return result;
}

REPRISE_REPLACES int fsync(int descriptor) {
  return log::sync_logged("fsync", descriptor);
}

REPRISE_REPLACES int fdatasync(int descriptor) {
  return log::sync_logged("fdatasync", descriptor);
}

REPRISE_REPLACES int mkdir(const char* path, mode_t mode) noexcept {
  const int result = log::original<int(const char*, mode_t)>("mkdir")(path, mode);
  log::record([&](log::Recorder& recorder) {
    if (const auto name = recorder.inside(AT_FDCWD, path); result == 0 && name) {
      recorder.link(*name, /*is_folder=*/true);
    }
  });
  return result;
}

REPRISE_REPLACES int rename(const char* from, const char* to) noexcept {
  const int result = log::original<int(const char*, const char*)>("rename")(from, to);
  log::record([&](log::Recorder& recorder) {
    const auto before = recorder.inside(AT_FDCWD, from), after = recorder.inside(AT_FDCWD, to);
    if (result == 0 && before && after) {
      recorder.rename(*before, *after);
    }
  });
  return result;
}

REPRISE_REPLACES int unlink(const char* path) noexcept {
  return log::removed(log::original<int(const char*)>("unlink")(path), AT_FDCWD, path);
}

REPRISE_REPLACES int remove(const char* path) noexcept {
  return log::removed(log::original<int(const char*)>("remove")(path), AT_FDCWD, path);
}

REPRISE_REPLACES int rmdir(const char* path) noexcept {
  return log::removed(log::original<int(const char*)>("rmdir")(path), AT_FDCWD, path);
}

REPRISE_REPLACES int unlinkat(int folder, const char* path, int flags) noexcept {
  return log::removed(
      log::original<int(int, const char*, int)>("unlinkat")(folder, path, flags), folder, path);
}

}  // extern "C"
