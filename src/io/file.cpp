// Uses POSIX calls: fsync and atomic rename have no counterpart in standard C++.
#include <reprise/io/file.h>

#include "io/descriptor.h"
#include "io/last_error.h"
#include "io/sync.h"

#include <c10/util/Exception.h>

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace reprise {
namespace {

using io::check_regular;
using io::Descriptor;
using io::kReadFlags;
using io::last_error;

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace

std::string read_file(const std::filesystem::path& path, size_t max_bytes) {
  const Descriptor file(path, kReadFlags);
  const auto size = static_cast<size_t>(check_regular(file, path).st_size);
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
  std::vector<std::filesystem::path> made;
  for (auto path = std::filesystem::absolute(folder, failed);
       path.has_relative_path() && !std::filesystem::exists(path, failed);
       path = path.parent_path()) {
    made.push_back(path);
  }
  std::filesystem::create_directories(folder, failed);
  std::error_code ignored;
  TORCH_CHECK(std::filesystem::is_directory(folder, ignored),
              "[file] ",
              folder.string(),
              ": cannot create the folder: ",
              failed ? failed.message() : "a file of that name is there");
  for (const auto& path : made) {
    io::sync_folder(path.parent_path());
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
  io::sync_folder(folder_of(path_));
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace reprise
