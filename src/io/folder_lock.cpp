// flock() and not a file that merely exists: what a killed process leaves must not count.
#include <reprise/io/folder_lock.h>

#include "io/last_error.h"

#include <c10/util/Exception.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

namespace reprise {
namespace {

constexpr std::string_view kLockName = ".reprise.lock";

int lock_now(int descriptor) {
  int result = -1;
  do {
    result = ::flock(descriptor, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  return result;
}

/// Whether the path still leads to this file: its last holder removes it.
bool is_current(int descriptor, const std::filesystem::path& file) {
  struct stat held {};
  struct stat found {};
  return ::fstat(descriptor, &held) == 0 && ::lstat(file.c_str(), &found) == 0 &&
         held.st_ino == found.st_ino && held.st_dev == found.st_dev;
}

std::string this_process() {
  std::array<char, 256> host{};
  const bool is_known = ::gethostname(host.data(), host.size() - 1) == 0 && host[0] != '\0';
  return "process " + std::to_string(::getpid()) + " on " + (is_known ? host.data() : "this host");
}

/// What the holder wrote, on one line. Anybody may have written the file.
std::string holder_in(int descriptor) {
  std::array<char, 400> text{};
  const ssize_t count = ::pread(descriptor, text.data(), text.size(), 0);
  std::string holder;
  for (ssize_t i = 0; i < count && text[static_cast<size_t>(i)] != '\n'; ++i) {
    const char byte = text[static_cast<size_t>(i)];
    holder += byte >= ' ' && byte <= '~' ? byte : '?';
  }
  return holder.empty() ? "another process" : holder;
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder) : file_(folder / kLockName) {
  constexpr mode_t kReadableByAll = 0644;
  while (descriptor_ < 0) {
    descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kReadableByAll);
    TORCH_CHECK(descriptor_ >= 0, "[file] cannot create ", file_.string(), ": ", io::last_error());
    if (lock_now(descriptor_) != 0) {
      const int reason = errno;
      const std::string text = io::last_error();
      const std::string holder = holder_in(descriptor_);
      if (reason != EWOULDBLOCK) {
        missing_ = text;
        return;
      }
      ::close(descriptor_);
      TORCH_CHECK(false,
                  folder.string(),
                  ": ",
                  holder,
                  " is writing to this folder. Wait for it to end, or name another folder.");
    }
    if (!is_current(descriptor_, file_)) {
      ::close(descriptor_);
      descriptor_ = -1;
    }
  }
  const std::string line = this_process() + "\n";
  // Only for the message of the next one: the lock holds without it.
  if (::ftruncate(descriptor_, 0) == 0) {
    [[maybe_unused]] const auto count = ::pwrite(descriptor_, line.data(), line.size(), 0);
  }
}

FolderLock::~FolderLock() {
  ::unlink(file_.c_str());
  ::close(descriptor_);
}

}  // namespace reprise
