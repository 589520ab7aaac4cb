// Tokenised examples on disk: a folder with
//   examples.bin  the records, concatenated
//   index.bin     an IndexEntry per record
//   cache.json    what the cache is of, sizes and checksums, and the report. Written last: a folder
//                 without it is not a cache
// Each file is replaced atomically. Processes that build the same cache concurrently write the same
// bytes, so it does not matter whose files remain.
//
// Note [Trust in a cache]
// A cache is used only if all of it is what this user wrote: every file belongs to this user and
// nobody else may write to it; cache.json has a checksum and names the key that is asked for; it
// has the checksum of the index, and the index that of every record. The index is checked when the
// cache is opened, and each record before it is used. No sequence is longer than its options allow.
#pragma once

#include "io/random_access_file.h"

#include <reprise/data/example.h>
#include <reprise/export.h>
#include <reprise/io/file.h>
#include <reprise/io/json.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace reprise::data {

/// Increased when the record format or the tokenisation rules change, which invalidates old caches.
inline constexpr int64_t kCacheVersion = 3;

struct IndexEntry {
  uint64_t offset = 0;    ///< of the record, which ends where the next one begins
  uint32_t longest = 0;   ///< length of its longest sequence
  uint32_t checksum = 0;  ///< CRC-32 of the record
};
static_assert(sizeof(IndexEntry) == 16, "written to disk as is");

/// What a cache is of.
struct CacheRules {
  std::string key;         ///< identifies everything that the examples depend on
  int64_t max_length = 0;  ///< of a sequence, in tokens; 0: no limit
};

class REPRISE_API ExampleCacheWriter {
 public:
  /// Creates the folder.
  ExampleCacheWriter(std::filesystem::path folder, CacheRules rules);

  void add(const Example& example);
  /// Makes the cache visible. Without it nothing is left but possibly the folder.
  void commit(Json report);

 private:
  void flush();

  std::filesystem::path folder_;
  CacheRules rules_;
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
  /// Null if there is no cache, or one that must not be used and has to be rebuilt: truncated,
  /// altered, of another key, with a sequence that is too long, or not this user's alone.
  static std::shared_ptr<const ExampleCache> open(const std::filesystem::path& folder,
                                                  const CacheRules& rules);

  int64_t size() const { return count_; }
  int64_t longest(int64_t index) const { return entry(index).longest; }
  /// Throws if the record was altered after it was written.
  Example at(int64_t index) const;
  const Json& report() const { return report_; }

 private:
  ExampleCache(const std::filesystem::path& folder, const Json& description);
  IndexEntry entry(int64_t index) const;
  uint64_t end_of(int64_t index) const;
  bool is_sound(const Json& description, const CacheRules& rules) const;

  io::RandomAccessFile examples_;
  MappedFile index_;
  int64_t count_ = 0;
  Json report_;
};

}  // namespace reprise::data
