#include <reprise/io/atomic_folder.h>

#include <c10/util/Exception.h>

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <system_error>

namespace reprise {

namespace fs = std::filesystem;

namespace {

// A rename is durable only once the parent folder is synced. Some file systems cannot sync a
// folder; its content is complete all the same.
void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    ::fsync(descriptor);
    ::close(descriptor);
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
  fs::create_directories(final_.parent_path());
  temporary_ = final_;
  temporary_ += ".partial-" + std::to_string(getpid());
  TORCH_CHECK(fs::create_directory(temporary_),
              temporary_.string(),
              ": is there already, left by a run that was killed; remove it");
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

void AtomicFolder::commit() {
  // Replaces an empty folder, and nothing else.
  fs::rename(temporary_, final_);
  sync_folder(final_.parent_path());
}

}  // namespace reprise
