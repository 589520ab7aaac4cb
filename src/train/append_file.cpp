// AppendFile over O_APPEND. No fsync: the kernel keeps what a killed process wrote, and a machine
// that loses power loses its last step anyhow.
#include "train/append_file.h"

#include "io/last_error.h"

#include <c10/util/Exception.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

namespace reprise::detail {
namespace {

constexpr mode_t kAllButUmask = 0666;

int open_for_appending(const std::filesystem::path& path, AppendFile::Start start) {
  const int exclusive = start == AppendFile::Start::NewFile ? O_EXCL : 0;
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | exclusive, kAllButUmask);
}

}  // namespace

AppendFile::AppendFile(std::filesystem::path path, Start start)
    : path_(std::move(path)), descriptor_(open_for_appending(path_, start)) {
  TORCH_CHECK(descriptor_ >= 0, "[file] cannot open ", path_.string(), ": ", last_error());
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    TORCH_CHECK(false, "[file] ", path_.string(), ": expected a regular file");
  }
  size_ = static_cast<uint64_t>(status.st_size);
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
      // The disk is full, say. The part that was written would spoil what is appended later.
      const std::string reason = last_error();
      const bool is_cut = ::ftruncate(descriptor_, static_cast<off_t>(size_)) == 0;
      TORCH_CHECK(false,
                  "[file] cannot write ",
                  path_.string(),
                  ": ",
                  reason,
                  is_cut ? "" : ". Its last line is torn.");
    }
    done += static_cast<size_t>(count);
  }
  size_ += bytes.size();
}

void AppendFile::cut(uint64_t size) {
  TORCH_CHECK(::ftruncate(descriptor_, static_cast<off_t>(size)) == 0,
              "[file] cannot shorten ",
              path_.string(),
              ": ",
              last_error());
  size_ = size;
}

}  // namespace reprise::detail
