// A temporary folder is locked while its process lives. One that can be locked was abandoned.
#include <reprise/io/atomic_folder.h>

#include <reprise/io/file.h>

#include "io/last_error.h"
#include "io/sync.h"

#include <c10/util/Exception.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace reprise {

namespace fs = std::filesystem;

namespace {

constexpr const char* kPartial = ".partial-";

/// A number that no other process has, in another container or on another host either.
std::string random_suffix() {
  std::random_device random;
  return c10::str(random(), "-", random());
}

/// Locks the folder. -1, with errno, if somebody has it or if the file system has no such locks.
int locked(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor >= 0 && ::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    const int reason = errno;
    ::close(descriptor);
    errno = reason;
    return -1;
  }
  return descriptor;
}

void remove_abandoned_attempts(const fs::path& final) {
  const std::string start = final.filename().string() + kPartial;
  std::vector<fs::path> attempts;
  std::error_code ignored;
  for (fs::directory_iterator entry(final.parent_path(), ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    if (entry->path().filename().string().starts_with(start)) {
      attempts.push_back(entry->path());
    }
  }
  for (const auto& attempt : attempts) {
    if (const int lock = locked(attempt); lock >= 0) {
      fs::remove_all(attempt, ignored);
      ::close(lock);
    }
  }
}

}  // namespace

// Resolves links now, because a rename would replace the link itself.
AtomicFolder::AtomicFolder(const fs::path& path)
    : final_(fs::weakly_canonical(fs::absolute(path))) {
  if (!final_.has_filename()) {
    final_ = final_.parent_path();  // written with a slash at the end
  }
  TORCH_CHECK(!fs::is_symlink(final_), final_.string(), ": is a link to nothing; remove it");
  TORCH_CHECK(!fs::exists(final_) || (fs::is_directory(final_) && fs::is_empty(final_)),
              final_.string(),
              ": is there already; name a new or an empty folder");
  create_folder(final_.parent_path());
  remove_abandoned_attempts(final_);
  make_temporary();
}

void AtomicFolder::make_temporary() {
  constexpr mode_t kAllButUmask = 0777;
  while (true) {
    temporary_ = final_;
    temporary_ += kPartial + random_suffix();
    if (::mkdir(temporary_.c_str(), kAllButUmask) != 0) {
      TORCH_CHECK(
          errno == EEXIST, "[file] cannot create ", temporary_.string(), ": ", io::last_error());
      continue;
    }
    lock_ = locked(temporary_);
    const bool has_no_locks = lock_ < 0 && errno != EWOULDBLOCK && errno != ENOENT;
    // Between the two calls, another process may have taken it for abandoned.
    if (has_no_locks || (lock_ >= 0 && fs::is_directory(temporary_))) {
      return;
    }
    if (lock_ >= 0) {
      ::close(std::exchange(lock_, -1));
    }
  }
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
  if (lock_ >= 0) {
    ::close(lock_);
  }
}

void AtomicFolder::commit() {
  io::sync_tree(temporary_);
  // Replaces an empty folder, and nothing else.
  TORCH_CHECK(::rename(temporary_.c_str(), final_.c_str()) == 0,
              "[file] cannot rename ",
              temporary_.string(),
              " to ",
              final_.string(),
              ": ",
              io::last_error());
  io::sync_folder(final_.parent_path());
}

}  // namespace reprise
