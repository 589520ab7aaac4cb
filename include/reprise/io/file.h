// Reading files by mapping them, and writing them atomically.
#pragma once

#include <reprise/export.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace reprise {

namespace io {
struct MappedRange;
}

/// The content of a regular file. Throws c10::Error naming the path if it cannot be read or is
/// larger than `max_bytes`.
REPRISE_API std::string read_file(const std::filesystem::path& path,
                                  size_t max_bytes = size_t{256} << 20);

/// Creates a folder and its parents unless they exist. Throws c10::Error naming the path.
REPRISE_API void create_folder(const std::filesystem::path& folder);

/// A file mapped read-only. Not copyable; moving keeps the mapped address. If the file becomes
/// shorter meanwhile, reading what is gone ends the process: see end_on_mapped_file_faults().
class REPRISE_API MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }
  /// When it was opened: nobody but this user owned it or could write to it.
  bool is_private() const { return is_private_; }

  /// Lets the kernel reclaim the pages of this range, because they are not needed again soon. They
  /// may still be read again.
  void release(size_t offset, size_t length) const;

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  bool is_private_ = false;
  io::MappedRange* range_ = nullptr;
};

/// From now on, touching a page of a MappedFile that is gone (the file became shorter, its disk
/// failed) ends the process with exit code 1 and a line on stderr that names the file, instead of
/// the signal SIGBUS. Other causes of SIGBUS are as before. For programs; replaces the process's
/// handler of SIGBUS.
REPRISE_API void end_on_mapped_file_faults();

/// Writes a file that appears under its name only when it is complete: into a temporary file in the
/// same folder, then fsync, rename, and fsync of the folder. Without commit(), nothing is left.
class REPRISE_API AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  uint64_t written() const { return written_; }
  /// Sets the length of the file; bytes that are not written are zero. Until commit(), other
  /// processes may write to it by its temporary name.
  void extend_to(uint64_t bytes);
  const std::filesystem::path& temporary() const { return temporary_; }
  /// Waits until the content is on disk, still under the temporary name. commit() does so too; for
  /// several files that belong together, sync() all of them and then commit() all.
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

/// Removes temporary files that AtomicFile left in a folder when its process was killed. Only for a
/// folder that no other process is writing to.
REPRISE_API void remove_unfinished_files(const std::filesystem::path& folder);

}  // namespace reprise
