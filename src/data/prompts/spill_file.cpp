// SpillFile with POSIX calls: pread() has no shared file position, so threads need no lock.
#include "data/prompts/spill_file.h"

#include <c10/util/Exception.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace reprise::data {
namespace {

constexpr size_t kFlushBytes = size_t{1} << 20;

/// Throws with the reason in errno unless `succeeded`.
void check_call(bool succeeded, const char* failed_to) {
  const int reason = errno;
  TORCH_CHECK(succeeded,
              "[data] cannot ",
              failed_to,
              " a temporary file for prompts: ",
              std::strerror(reason),
              ". Set the environment variable TMPDIR to use another folder");
}

}  // namespace

SpillFile::SpillFile() {
  std::error_code unknown;
  const auto folder = std::filesystem::temp_directory_path(unknown);
  TORCH_CHECK(!unknown,
              "[data] there is no folder for temporary files: ",
              unknown.message(),
              ". Set the environment variable TMPDIR to one");
  std::string name = (folder / "reprise-prompts-XXXXXX").string();
  descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
  check_call(descriptor_ >= 0, "create");
  ::unlink(name.c_str());
}

SpillFile::~SpillFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

SpillFile::SpillFile(SpillFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      written_(other.written_),
      pending_(std::move(other.pending_)) {}

uint64_t SpillFile::append(std::string_view text) {
  const uint64_t offset = written_ + pending_.size();
  pending_ += text;
  if (pending_.size() >= kFlushBytes) {
    flush();
  }
  return offset;
}

void SpillFile::flush() {
  size_t done = 0;
  while (done < pending_.size()) {
    const ssize_t count = ::write(descriptor_, pending_.data() + done, pending_.size() - done);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    check_call(count > 0, "write to");
    done += static_cast<size_t>(count);
  }
  written_ += pending_.size();
  pending_.clear();
}

std::string SpillFile::read(uint64_t offset, size_t bytes) const {
  TORCH_INTERNAL_ASSERT(offset <= written_ && bytes <= written_ - offset);
  std::string text(bytes, '\0');
  size_t done = 0;
  while (done < bytes) {
    const ssize_t count =
        ::pread(descriptor_, text.data() + done, bytes - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    check_call(count > 0, "read");
    done += static_cast<size_t>(count);
  }
  return text;
}

}  // namespace reprise::data
