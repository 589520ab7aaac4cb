// MappedFile: a read-only mapping that is in the table of mapped ranges while it exists.
#include "io/descriptor.h"
#include "io/mapped_ranges.h"

#include <reprise/io/file.h>

#include <c10/util/Exception.h>

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace reprise {
namespace {

size_t page_bytes() {
  static const auto bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

size_t whole_pages(size_t bytes) {
  return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const io::Descriptor file(path, io::kReadFlags);
  const auto status = io::check_regular(file, path);
  size_ = static_cast<size_t>(status.st_size);
  is_private_ = io::is_private(status);
  if (size_ == 0) {
    return;  // mmap refuses an empty mapping
  }
  void* const address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.number(), 0);
  TORCH_CHECK(address != MAP_FAILED, "[file] cannot map ", path.string(), ": ", io::last_error());
  data_ = static_cast<const std::byte*>(address);
  range_ = io::add_mapped_range(address, whole_pages(size_), path.string());
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    io::remove_mapped_range(range_);
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      is_private_(other.is_private_),
      range_(std::exchange(other.range_, nullptr)) {}

void MappedFile::release(size_t offset, size_t length) const {
  const size_t page = page_bytes();
  // The last page may hold the start of what is read next, unless the file ends there.
  const size_t end = std::min(size_, offset + std::min(length, SIZE_MAX - offset));
  const size_t last = end == size_ ? whole_pages(end) : end / page * page;
  const size_t first = offset / page * page;
  if (data_ != nullptr && first < last) {
    // Only advice: if the kernel ignores it, the pages stay in memory until the file is unmapped.
    ::madvise(const_cast<std::byte*>(data_) + first, last - first, MADV_DONTNEED);
  }
}

}  // namespace reprise
