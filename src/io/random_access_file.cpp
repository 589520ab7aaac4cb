// RandomAccessFile with pread(): no shared position, so threads need no lock, and a file that
// became shorter is an error instead of a signal.
#include "io/random_access_file.h"

#include "io/descriptor.h"

#include <c10/util/Exception.h>

#include <cerrno>

namespace reprise::io {

RandomAccessFile::RandomAccessFile(const std::filesystem::path& path)
    : path_(path), descriptor_(path, kReadFlags) {
  const auto status = check_regular(descriptor_, path);
  size_ = static_cast<uint64_t>(status.st_size);
  is_private_ = io::is_private(status);
}

void RandomAccessFile::read(uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t count =
        ::pread(descriptor_.number(), into.data(), into.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    TORCH_CHECK(count >= 0, "[file] cannot read ", path_.string(), ": ", last_error());
    TORCH_CHECK(count > 0,
                "[file] ",
                path_.string(),
                ": became shorter while it was in use; it had ",
                size_,
                " bytes");
    offset += static_cast<uint64_t>(count);
    into = into.subspan(static_cast<size_t>(count));
  }
}

std::string RandomAccessFile::read_text(uint64_t offset, size_t bytes) const {
  std::string text(bytes, '\0');
  read(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace reprise::io
