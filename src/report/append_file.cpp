// AppendFile with O_APPEND.
#include "report/append_file.h"

#include "io/last_error.h"
#include "io/sync.h"

#include <c10/util/Exception.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

namespace reprise::report {
namespace {

constexpr mode_t kAllButUmask = 0666;

int open_for_appending(const std::filesystem::path& path, AppendFile::Mode mode) {
  const int exclusive = mode == AppendFile::Mode::Create ? O_EXCL : 0;
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | exclusive, kAllButUmask);
}

}  // namespace

AppendFile::AppendFile(std::filesystem::path path, Mode mode)
    : path_(std::move(path)), descriptor_(open_for_appending(path_, mode)) {
  TORCH_CHECK(descriptor_ >= 0, "[file] cannot open ", path_.string(), ": ", io::last_error());
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    TORCH_CHECK(false, "[file] ", path_.string(), ": expected a regular file");
  }
  size_ = static_cast<uint64_t>(status.st_size);
  if (size_ == 0) {
    io::sync_folder(path_.parent_path());  // it may be new
  }
}

AppendFile::~AppendFile() {
  ::close(descriptor_);
}

void AppendFile::append(std::string_view bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::write(descriptor_, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      // For example, the disk is full. Remove the part that was written.
      const std::string reason = io::last_error();
      const bool is_removed = ::ftruncate(descriptor_, static_cast<off_t>(size_)) == 0;
      TORCH_CHECK(false,
                  "[file] cannot write ",
                  path_.string(),
                  ": ",
                  reason,
                  is_removed ? "" : ". Its last line is incomplete.");
    }
    done += static_cast<size_t>(count);
  }
  size_ += bytes.size();
}

void AppendFile::sync() {
  TORCH_CHECK(
      ::fsync(descriptor_) == 0, "[file] cannot write ", path_.string(), ": ", io::last_error());
}

void AppendFile::truncate(uint64_t size) {
  TORCH_CHECK(::ftruncate(descriptor_, static_cast<off_t>(size)) == 0,
              "[file] cannot truncate ",
              path_.string(),
              ": ",
              io::last_error());
  size_ = size;
}

}  // namespace reprise::report
