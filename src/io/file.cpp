// Uses POSIX calls: mapping, fsync and atomic rename have no counterpart in standard C++.
#include <reprise/io/file.h>

#include "io/last_error.h"

#include <c10/util/Exception.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace reprise {
namespace {

using io::last_error;

/// Closes what it opened.
class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags) : number_(::open(path.c_str(), flags)) {}
  ~Descriptor() {
    if (number_ >= 0) {
      ::close(number_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }
  bool valid() const { return number_ >= 0; }

 private:
  int number_;
};

/// The size of a file that was opened for reading. Only a regular file has a size to rely on.
size_t check_regular(const Descriptor& file, const std::filesystem::path& path) {
  TORCH_CHECK(file.valid(), "[file] cannot open ", path.string(), ": ", last_error());
  struct stat status {};
  TORCH_CHECK(::fstat(file.number(), &status) == 0,
              "[file] cannot read ",
              path.string(),
              ": ",
              last_error());
  TORCH_CHECK(S_ISREG(status.st_mode),
              "[file] ",
              path.string(),
              ": expected a regular file, found ",
              S_ISDIR(status.st_mode) ? "a folder" : "something else");
  return static_cast<size_t>(status.st_size);
}

constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;  // opening a pipe would block

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace

std::string read_file(const std::filesystem::path& path, size_t max_bytes) {
  const Descriptor file(path, kReadFlags);
  const size_t size = check_regular(file, path);
  TORCH_CHECK(size <= max_bytes,
              "[file] ",
              path.string(),
              ": expected at most ",
              max_bytes,
              " bytes, found ",
              size);
  std::string bytes(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t count = ::read(file.number(), bytes.data() + done, size - done);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    TORCH_CHECK(count >= 0, "[file] cannot read ", path.string(), ": ", last_error());
    TORCH_CHECK(count > 0, "[file] ", path.string(), ": became shorter while it was read");
    done += static_cast<size_t>(count);
  }
  return bytes;
}

void create_folder(const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  TORCH_CHECK(std::filesystem::is_directory(folder),
              "[file] ",
              folder.string(),
              ": cannot create the folder: ",
              failed.message());
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const Descriptor file(path, kReadFlags);
  size_ = check_regular(file, path);
  if (size_ == 0) {
    return;  // mmap refuses an empty mapping
  }
  void* const address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.number(), 0);
  TORCH_CHECK(address != MAP_FAILED, "[file] cannot map ", path.string(), ": ", last_error());
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

void MappedFile::release(size_t offset, size_t length) const {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  // The last page may hold the start of what is read next, unless the file ends there.
  const size_t end = std::min(size_, offset + std::min(length, SIZE_MAX - offset));
  const size_t last = end == size_ ? (end + page - 1) / page * page : end / page * page;
  const size_t first = offset / page * page;
  if (data_ != nullptr && first < last) {
    // Only advice: if the kernel ignores it, the pages stay in memory until the file is unmapped.
    ::madvise(const_cast<std::byte*>(data_) + first, last - first, MADV_DONTNEED);
  }
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  static std::atomic<uint64_t> serial = 0;
  constexpr mode_t kAllButUmask = 0666;
  TORCH_CHECK(path_.has_filename(), "[file] expected the name of a file, found ", path_.string());
  const std::string stem = "." + path_.filename().string() + "." + std::to_string(::getpid()) + ".";
  do {
    // An earlier process with the same id may have been killed and have left its file.
    temporary_ = folder_of(path_) / (stem + std::to_string(serial++));
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kAllButUmask);
  } while (descriptor_ < 0 && errno == EEXIST);
  TORCH_CHECK(descriptor_ >= 0, "[file] cannot create ", temporary_.string(), ": ", last_error());
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
  if (!temporary_.empty()) {
    ::unlink(temporary_.c_str());
  }
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  TORCH_CHECK(descriptor_ >= 0, "[file] ", path_.string(), ": written to after commit");
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    TORCH_CHECK(count >= 0, "[file] cannot write ", path_.string(), ": ", last_error());
    written_ += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span<const char>(text.data(), text.size())));
}

void AtomicFile::extend_to(uint64_t bytes) {
  TORCH_CHECK(::ftruncate(descriptor_, static_cast<off_t>(bytes)) == 0,
              "[file] cannot write ",
              path_.string(),
              ": ",
              last_error());
}

void AtomicFile::sync() {
  TORCH_CHECK(
      ::fsync(descriptor_) == 0, "[file] cannot write ", path_.string(), ": ", last_error());
}

void AtomicFile::commit() {
  TORCH_CHECK(descriptor_ >= 0, "[file] ", path_.string(), ": committed twice");
  sync();
  TORCH_CHECK(::close(std::exchange(descriptor_, -1)) == 0,
              "[file] cannot write ",
              path_.string(),
              ": ",
              last_error());
  TORCH_CHECK(::rename(temporary_.c_str(), path_.c_str()) == 0,
              "[file] cannot replace ",
              path_.string(),
              ": ",
              last_error());
  temporary_.clear();
  // The name is durable only once the folder is synced. Some file systems cannot sync a folder; the
  // file is complete all the same.
  if (const Descriptor folder(folder_of(path_), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      folder.valid()) {
    ::fsync(folder.number());
  }
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace reprise
