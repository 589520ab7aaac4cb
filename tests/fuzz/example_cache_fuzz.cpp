// libFuzzer: a count, an index of so many entries, and records: as the files of a cache, whose sums
// are made to fit, since what they protect from is chance and not malice. The cache is opened or
// not; each of its examples is refused with c10::Error or has sequences that fit together.
#include "checked_example.h"
#include "fuzzed_folder.h"

#include "data/dataset/example_cache.h"

#include <c10/util/Exception.h>
#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace {

using reprise::data::IndexEntry;
using Bytes = std::span<const uint8_t>;

const reprise::data::CacheRules kRules{.key = "fuzz", .max_length = 1000};

uint32_t checksum(Bytes bytes) {
  return static_cast<uint32_t>(crc32_z(crc32_z(0, nullptr, 0), bytes.data(), bytes.size()));
}

/// Where a record is, if the index is right about it.
Bytes record_at(const std::vector<IndexEntry>& index, size_t i, Bytes records) {
  const uint64_t end = i + 1 < index.size() ? index[i + 1].offset : records.size();
  const bool is_inside = index[i].offset <= end && end <= records.size();
  return is_inside ? records.subspan(index[i].offset, end - index[i].offset) : Bytes();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const reprise::testing::FuzzedFolder folder("example_cache_fuzz");
  Bytes input(data, size);
  if (input.empty()) {
    return 0;
  }
  std::vector<IndexEntry> index(std::min<size_t>(input[0], (size - 1) / sizeof(IndexEntry)));
  input = input.subspan(1);
  for (IndexEntry& entry : index) {
    std::memcpy(&entry, input.data(), sizeof(entry));
    input = input.subspan(sizeof(entry));
  }
  const Bytes records = input;
  for (size_t i = 0; i < index.size(); ++i) {
    index[i].checksum = checksum(record_at(index, i, records));
  }
  const Bytes entries(reinterpret_cast<const uint8_t*>(index.data()),
                      index.size() * sizeof(IndexEntry));
  folder.write("examples.bin", records);
  folder.write("index.bin", entries);
  reprise::Json description{{"format", "reprise examples"},
                            {"version", reprise::data::kCacheVersion},
                            {"key", kRules.key},
                            {"max_length", kRules.max_length},
                            {"examples", index.size()},
                            {"bytes", records.size()},
                            {"index_checksum", checksum(entries)},
                            {"report", nullptr}};
  const std::string text = description.dump();
  description["checksum"] = checksum({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  const std::string whole = description.dump();
  folder.write("cache.json", {reinterpret_cast<const uint8_t*>(whole.data()), whole.size()});
  const auto cache = reprise::data::ExampleCache::open(folder.path(), kRules);
  for (int64_t i = 0; cache != nullptr && i < cache->size(); ++i) {
    try {
      reprise::testing::check_example(cache->at(i));
    } catch (const c10::Error&) {
    }
  }
  return 0;
}
