#include "data/dataset/remembered_hash.h"

#include "data/dataset/content_key.h"
#include "io/last_error.h"
#include "io/private_files.h"
#include "io/random_access_file.h"

#include <reprise/io/file.h>

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::data {
namespace {

constexpr uint64_t kPartBytes = uint64_t{4} << 20;
constexpr size_t kHashDigits = 40;

struct FileIdentity {
  std::string text;
  int64_t changed = 0;  // in seconds since 1970
  bool operator==(const FileIdentity& other) const { return text == other.text; }
};

FileIdentity identity_of(const std::filesystem::path& file) {
  struct stat status {};
  TORCH_CHECK(::stat(file.c_str(), &status) == 0,
              "[data] ",
              file.string(),
              ": cannot be read: ",
              io::last_error());
  std::string text;
  for (const auto part : {static_cast<int64_t>(status.st_dev),
                          static_cast<int64_t>(status.st_ino),
                          static_cast<int64_t>(status.st_size),
                          static_cast<int64_t>(status.st_mtim.tv_sec),
                          static_cast<int64_t>(status.st_mtim.tv_nsec),
                          static_cast<int64_t>(status.st_ctim.tv_sec),
                          static_cast<int64_t>(status.st_ctim.tv_nsec)}) {
    text += std::to_string(part) + " ";
  }
  return {text, static_cast<int64_t>(status.st_ctim.tv_sec)};
}

std::string hash_parts(const std::filesystem::path& path) {
  const io::RandomAccessFile file(path);
  std::vector<std::string> hashes((file.size() + kPartBytes - 1) / kPartBytes);
  at::parallel_for(0, static_cast<int64_t>(hashes.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const uint64_t offset = static_cast<uint64_t>(i) * kPartBytes;
      const uint64_t bytes = std::min(kPartBytes, file.size() - offset);
      hashes[static_cast<size_t>(i)] = hash_text(file.read_text(offset, bytes));
    }
  });
  std::string all;
  for (const std::string& hash : hashes) {
    all += hash;
  }
  return hash_text(all);
}

/// What an earlier run stored; std::nullopt unless only this user can have.
std::optional<std::string> stored_hash(const std::filesystem::path& path) {
  try {
    const io::RandomAccessFile file(path);
    if (!file.is_private() || file.size() != kHashDigits) {
      return std::nullopt;
    }
    const std::string hash = file.read_text(0, kHashDigits);
    const auto is_digit = [](unsigned char c) { return std::isxdigit(c) != 0; };
    return std::all_of(hash.begin(), hash.end(), is_digit) ? std::optional(hash) : std::nullopt;
  } catch (const c10::Error&) {  // there is none
    return std::nullopt;
  }
}

void store_hash(const std::filesystem::path& path, const std::string& hash) {
  try {
    io::create_private_folder(path.parent_path());
    AtomicFile file(path);
    io::make_private(file.temporary());
    file.write(hash);
    file.commit();
  } catch (const c10::Error&) {  // NOLINT(bugprone-empty-catch): only costs time at the next start
  }
}

}  // namespace

std::string remembered_hash(const std::filesystem::path& file,
                            const std::filesystem::path& folder,
                            std::chrono::system_clock::time_point now) {
  if (folder.empty()) {
    return hash_parts(file);
  }
  constexpr int64_t kClockSeconds = 3;  // the coarsest times that file systems keep are 2 s apart
  const FileIdentity before = identity_of(file);
  const auto path = folder / "contents" / hash_text(before.text);
  if (auto stored = stored_hash(path)) {
    return *stored;
  }
  const int64_t start =
      std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  std::string hash = hash_parts(file);
  if (identity_of(file) == before && before.changed + kClockSeconds < start) {
    store_hash(path, hash);
  }
  return hash;
}

}  // namespace reprise::data
