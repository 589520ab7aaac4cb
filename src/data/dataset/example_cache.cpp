// The index is checked when a cache is opened, and each record when it is read. Checking all
// records at once would take as long as the cache saves.
#include "data/dataset/example_cache.h"

#include "data/dataset/example_record.h"

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

uint32_t checksum(std::span<const std::byte> bytes, uint32_t before = 0) {
  const auto* const data = reinterpret_cast<const Bytef*>(bytes.data());
  return static_cast<uint32_t>(crc32_z(before, data, bytes.size()));
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// The content of cache.json, or std::nullopt if there is no valid one.
std::optional<Json> read_description(const std::filesystem::path& folder) {
  try {
    Json description = read_json(folder / "cache.json");
    const bool is_ours = description.is_object() && description.value("format", "") == kFormat &&
                         description.value("version", int64_t{0}) == kCacheVersion &&
                         description.contains("report");
    return is_ours ? std::optional(std::move(description)) : std::nullopt;
  } catch (const c10::Error&) {
    return std::nullopt;
  } catch (const Json::exception&) {  // a field has another type
    return std::nullopt;
  }
}

}  // namespace

ExampleCacheWriter::ExampleCacheWriter(std::filesystem::path folder)
    : folder_((create_folder(folder), std::move(folder))),
      examples_(folder_ / "examples.bin"),
      index_(folder_ / "index.bin"),
      index_checksum_(checksum({})) {}

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
  write_json(folder_ / "cache.json",
             {{"format", kFormat},
              {"version", kCacheVersion},
              {"examples", count_},
              {"bytes", size_},
              {"index_checksum", index_checksum_},
              {"report", std::move(report)}});
}

std::shared_ptr<const ExampleCache> ExampleCache::open(const std::filesystem::path& folder) {
  const auto description = read_description(folder);
  if (!description) {
    return nullptr;
  }
  try {
    // make_shared cannot reach a private constructor.
    const std::shared_ptr<const ExampleCache> cache(
        new ExampleCache(folder, *description));  // allow: owning-new
    return cache->is_sound(*description) ? cache : nullptr;
  } catch (const c10::Error&) {  // a missing file
    return nullptr;
  } catch (const Json::exception&) {
    return nullptr;
  }
}

ExampleCache::ExampleCache(const std::filesystem::path& folder, const Json& description)
    : examples_(folder / "examples.bin"),
      index_(folder / "index.bin"),
      count_(static_cast<int64_t>(index_.bytes().size() / sizeof(IndexEntry))),
      report_(description.at("report")) {}

bool ExampleCache::is_sound(const Json& description) const {
  const uint64_t bytes = examples_.bytes().size();
  if (description.at("examples") != count_ || description.at("bytes") != bytes ||
      index_.bytes().size() % sizeof(IndexEntry) != 0 ||
      description.at("index_checksum") != checksum(index_.bytes(), checksum({}))) {
    return false;
  }
  uint64_t begin = 0;
  for (int64_t i = 0; i < count_; ++i) {
    const uint64_t offset = entry(i).offset;
    if (offset < begin || offset > bytes || (i == 0 && offset != 0)) {
      return false;
    }
    begin = offset;
  }
  return true;
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
  const auto bytes = examples_.bytes();
  const IndexEntry here = entry(index);
  const uint64_t end = index + 1 < count_ ? entry(index + 1).offset : bytes.size();
  const auto record = bytes.subspan(here.offset, end - here.offset);
  auto example = checksum(record) == here.checksum ? parse_record(record) : std::nullopt;
  TORCH_CHECK(example && longest_sequence(*example) == here.longest,
              "[data] ",
              examples_.path().string(),
              ": example ",
              index,
              " is not what was written; delete this folder, and it will be rebuilt");
  return std::move(*example);
}

}  // namespace reprise::data
