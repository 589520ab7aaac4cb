// Note [Trust in a cache]. Records are checked one by one when they are read: checking all of them
// when a cache is opened would read files that may be larger than memory, at every start.
#include "data/dataset/example_cache.h"

#include "data/dataset/example_record.h"
#include "io/private_files.h"

#include <c10/util/Exception.h>

#include <zlib.h>

#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace reprise::data {
namespace {

constexpr size_t kFlushBytes = size_t{4} << 20;
constexpr std::string_view kFormat = "reprise examples";
constexpr const char* kDescription = "cache.json";
constexpr const char* kExamples = "examples.bin";
constexpr const char* kIndex = "index.bin";
constexpr const char* kChecksum = "checksum";

uint32_t checksum(std::span<const std::byte> bytes, uint32_t before = 0) {
  const auto* const data = reinterpret_cast<const Bytef*>(bytes.data());
  return static_cast<uint32_t>(crc32_z(before, data, bytes.size()));
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// Of everything in cache.json but the checksum itself.
uint32_t checksum_of(Json description) {
  description.erase(kChecksum);
  return checksum(bytes_of(description.dump()));
}

/// The content of cache.json, or std::nullopt if there is none to trust.
std::optional<Json> read_description(const std::filesystem::path& folder, const CacheRules& rules) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 20;
  try {
    const io::RandomAccessFile file(folder / kDescription);
    if (!file.is_private() || file.size() > kMostBytes) {
      return std::nullopt;
    }
    Json description = parse_json(file.read_text(0, file.size()), file.path().string());
    const bool is_ours = description.is_object() && description.value("format", "") == kFormat &&
                         description.value("version", int64_t{0}) == kCacheVersion &&
                         description.value("key", "") == rules.key &&
                         description.value("max_length", int64_t{-1}) == rules.max_length &&
                         description.contains("report") &&
                         description.at(kChecksum) == checksum_of(description);
    return is_ours ? std::optional(std::move(description)) : std::nullopt;
  } catch (const c10::Error&) {
    return std::nullopt;
  } catch (const Json::exception&) {  // a field has another type
    return std::nullopt;
  }
}

}  // namespace

ExampleCacheWriter::ExampleCacheWriter(std::filesystem::path folder, CacheRules rules)
    : folder_((io::create_private_folder(folder), std::move(folder))),
      rules_(std::move(rules)),
      examples_(folder_ / kExamples),
      index_(folder_ / kIndex),
      index_checksum_(checksum({})) {
  io::make_private(examples_.temporary());
  io::make_private(index_.temporary());
}

void ExampleCacheWriter::add(const Example& example) {
  const size_t begin = records_.size();
  append_record(example, records_);
  const auto record = bytes_of(std::string_view(records_).substr(begin));
  const IndexEntry entry{.offset = size_,
                         .longest = static_cast<uint32_t>(longest_sequence(example)),
                         .checksum = checksum(record)};
  entries_.append(reinterpret_cast<const char*>(&entry), sizeof(entry));
  size_ += record.size();
  ++count_;
  if (records_.size() >= kFlushBytes) {
    flush();
  }
}

void ExampleCacheWriter::flush() {
  examples_.write(records_);
  index_.write(entries_);
  index_checksum_ = checksum(bytes_of(entries_), index_checksum_);
  records_.clear();
  entries_.clear();
}

void ExampleCacheWriter::commit(Json report) {
  flush();
  examples_.sync();
  index_.sync();
  examples_.commit();
  index_.commit();
  Json description = {{"format", kFormat},
                      {"version", kCacheVersion},
                      {"key", rules_.key},
                      {"max_length", rules_.max_length},
                      {"examples", count_},
                      {"bytes", size_},
                      {"index_checksum", index_checksum_},
                      {"report", std::move(report)}};
  description[kChecksum] = checksum_of(description);
  AtomicFile file(folder_ / kDescription);
  io::make_private(file.temporary());
  file.write(json_text(description, (folder_ / kDescription).string()));
  file.commit();
}

std::shared_ptr<const ExampleCache> ExampleCache::open(const std::filesystem::path& folder,
                                                       const CacheRules& rules) {
  const auto description = read_description(folder, rules);
  if (!description) {
    return nullptr;
  }
  try {
    // make_shared cannot reach a private constructor.
    const std::shared_ptr<const ExampleCache> cache(
        new ExampleCache(folder, *description));  // allow: owning-new
    return cache->is_sound(*description, rules) ? cache : nullptr;
  } catch (const c10::Error&) {  // a missing file
    return nullptr;
  } catch (const Json::exception&) {
    return nullptr;
  }
}

ExampleCache::ExampleCache(const std::filesystem::path& folder, const Json& description)
    : examples_(folder / kExamples),
      index_(folder / kIndex),
      count_(static_cast<int64_t>(index_.bytes().size() / sizeof(IndexEntry))),
      report_(description.at("report")) {}

bool ExampleCache::is_sound(const Json& description, const CacheRules& rules) const {
  const uint64_t bytes = examples_.size();
  if (!examples_.is_private() || !index_.is_private() || description.at("examples") != count_ ||
      description.at("bytes") != bytes || index_.bytes().size() % sizeof(IndexEntry) != 0 ||
      description.at("index_checksum") != checksum(index_.bytes(), checksum({}))) {
    return false;
  }
  uint64_t begin = 0;
  for (int64_t i = 0; i < count_; ++i) {
    const auto [offset, longest, _] = entry(i);
    if (offset != begin || end_of(i) < offset || end_of(i) > bytes ||
        longest > (end_of(i) - offset) / sizeof(int32_t) ||
        (rules.max_length > 0 && longest > rules.max_length)) {
      return false;
    }
    begin = end_of(i);
  }
  return true;
}

uint64_t ExampleCache::end_of(int64_t index) const {
  return index + 1 < count_ ? entry(index + 1).offset : examples_.size();
}

IndexEntry ExampleCache::entry(int64_t index) const {
  TORCH_CHECK(index >= 0 && index < count_,
              "[data] expected an example in [0, ",
              count_,
              "), found ",
              index);
  IndexEntry entry;
  std::memcpy(&entry,
              index_.bytes().data() + static_cast<size_t>(index) * sizeof(IndexEntry),
              sizeof(IndexEntry));
  return entry;
}

Example ExampleCache::at(int64_t index) const {
  const IndexEntry here = entry(index);
  const std::string record = examples_.read_text(here.offset, end_of(index) - here.offset);
  auto example =
      checksum(bytes_of(record)) == here.checksum ? parse_record(bytes_of(record)) : std::nullopt;
  TORCH_CHECK(example && longest_sequence(*example) == here.longest,
              "[data] ",
              examples_.path().string(),
              ": example ",
              index,
              " is not what was written; delete this folder, and it will be rebuilt");
  return std::move(*example);
}

}  // namespace reprise::data
