// Tokenised examples on disk: a folder with
//   examples.bin  records, one after the other
//   index.bin     an IndexEntry for each
//   cache.json    sizes and checksum of these two and the report; written last, so that a folder
//                 without it is not a cache
// Each file appears whole or not at all. Two processes that build the same cache write the same
// bytes, so whose files end up there does not matter.
#pragma once

#include <reprise/data/example.h>
#include <reprise/export.h>
#include <reprise/io/file.h>
#include <reprise/io/json.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace reprise::detail {

/// Raised when records or the rules that make examples change: older caches are then not found.
inline constexpr int64_t kCacheVersion = 2;

struct IndexEntry {
  uint64_t offset = 0;    ///< of the record; it ends where the next begins
  uint32_t longest = 0;   ///< length of its longest sequence
  uint32_t checksum = 0;  ///< CRC-32 of the record
};
static_assert(sizeof(IndexEntry) == 16, "written as it lies");

class REPRISE_API ExampleCacheWriter {
 public:
  /// Makes the folder.
  explicit ExampleCacheWriter(std::filesystem::path folder);

  void add(const Example& example);
  /// Without it nothing is left but, perhaps, the folder.
  void commit(Json report);

 private:
  void flush();

  std::filesystem::path folder_;
  AtomicFile examples_;
  AtomicFile index_;
  std::string records_;  // not written yet
  std::string entries_;
  uint64_t size_ = 0;
  int64_t count_ = 0;
  uint32_t index_checksum_;
};

/// Immutable; may be shared by threads.
class REPRISE_API ExampleCache {
 public:
  /// Nothing if there is no cache, or one that was cut off or altered: it is then to be built.
  static std::shared_ptr<const ExampleCache> open(const std::filesystem::path& folder);

  int64_t size() const { return count_; }
  int64_t longest(int64_t index) const { return entry(index).longest; }
  /// Throws if the record was altered since it was written.
  Example at(int64_t index) const;
  const Json& report() const { return report_; }

 private:
  ExampleCache(const std::filesystem::path& folder, const Json& description);
  IndexEntry entry(int64_t index) const;
  bool is_sound(const Json& description) const;

  MappedFile examples_;
  MappedFile index_;
  int64_t count_ = 0;
  Json report_;
};

}  // namespace reprise::detail
