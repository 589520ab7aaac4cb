#include "io/shared_file.h"

#include "io/last_error.h"

#include <c10/util/Exception.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

namespace reprise::io {
// Opened for writing only: then a client of a network file system never reads a page, and sends
// only the bytes that were written to it, not stale bytes of other processes in that page.
SharedFile::SharedFile(std::filesystem::path path, uint64_t bytes, int64_t rank)
    : path_(std::move(path)), descriptor_(::open(path_.c_str(), O_WRONLY | O_CLOEXEC)) {
  TORCH_CHECK(descriptor_ >= 0 || errno != ENOENT,
              "[file] rank ",
              rank,
              " does not see ",
              path_.parent_path().string(),
              " as the first process does: all ranks must share the output folder");
  TORCH_CHECK(descriptor_ >= 0, "[file] cannot open ", path_.string(), ": ", last_error());
  struct stat status {};
  const bool is_known = ::fstat(descriptor_, &status) == 0;
  if (!is_known || static_cast<uint64_t>(status.st_size) != bytes) {
    ::close(std::exchange(descriptor_, -1));
    TORCH_CHECK(false,
                "[file] rank ",
                rank,
                " sees another ",
                path_.string(),
                " than the first process: all ranks must share the output folder");
  }
}

SharedFile::~SharedFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

void SharedFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count =
        ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    TORCH_CHECK(count >= 0, "[file] cannot write ", path_.string(), ": ", last_error());
    offset += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void SharedFile::sync() {
  TORCH_CHECK(
      ::fsync(descriptor_) == 0, "[file] cannot write ", path_.string(), ": ", last_error());
}

}  // namespace reprise::io
