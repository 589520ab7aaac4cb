// Files as they should be read and written: mapped, not copied; whole or not at all.
#pragma once

#include <reprise/export.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace reprise {

/// The bytes of a regular file. Throws c10::Error naming the path if it cannot be read or is larger
/// than `max_bytes`.
REPRISE_API std::string read_file(const std::filesystem::path& path,
                                  size_t max_bytes = size_t{256} << 20);

/// Makes a folder, and those above it, unless it is there. Throws c10::Error naming the path.
REPRISE_API void create_folder(const std::filesystem::path& folder);

/// A file mapped read-only. Not copyable; moving keeps the address.
class REPRISE_API MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

  /// Lets the kernel take back the pages of this range: they have been copied and are not needed
  /// again soon. Reading them again is allowed.
  void release(size_t offset, size_t length) const;

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// Writes a file that appears under its name only when whole: into a temporary file beside it, then
/// fsync, then rename, then fsync of the folder. Destroyed without commit(), it leaves nothing.
class REPRISE_API AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  uint64_t written() const { return written_; }
  /// Makes the file so long; what is not written is zero. Others may write into it by the name that
  /// it has until commit().
  void extend_to(uint64_t bytes);
  const std::filesystem::path& temporary() const { return temporary_; }
  /// Waits until all of it is on disk, still under its temporary name. commit() does so too; for
  /// several files that belong together, sync() all and then commit() all.
  void sync();
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  uint64_t written_ = 0;
};

/// AtomicFile in one call.
REPRISE_API void write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace reprise
