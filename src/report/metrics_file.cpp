// MetricsFile. Lines are read one by one from a mapping, since the file of a long run is large.
#include "report/append_file.h"

#include <reprise/io/file.h>
#include <reprise/report/metrics_file.h>

#include <c10/util/Exception.h>

#include <zlib.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace reprise {
namespace {

using report::AppendFile;

constexpr JsonLimits kLineLimits{.max_bytes = size_t{16} << 20, .max_depth = 20};

/// A whole number of 64 bits with a sign: a larger one would be a step before all others.
bool has_step(const Json& record) {
  const auto step = record.is_object() ? record.find("step") : record.end();
  return step != record.end() && step->is_number_integer() &&
         (!step->is_number_unsigned() || step->get<uint64_t>() <= uint64_t{INT64_MAX});
}

Json parse_record(std::string_view line, const std::string& source) {
  Json record = parse_json(line, source, kLineLimits);
  TORCH_CHECK(has_step(record),
              "[metrics] ",
              source,
              ": expected an object with an integer \"step\", found ",
              kind_of(record));
  return record;
}

/// A record that lacks only its newline is complete: no prefix of a JSON object is a JSON object.
bool is_incomplete(std::string_view last_line) {
  try {
    parse_record(last_line, "last line");
    return false;
  } catch (const c10::Error&) {
    return true;
  }
}

using Visit = std::function<void(std::string_view line, const std::string& source)>;

/// Calls `visit` with each complete line, without its newline.
void for_each_line(const MappedFile& file, const Visit& visit) {
  const auto bytes = file.bytes();
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (size_t number = 1; !rest.empty(); ++number) {
    const size_t end = rest.find('\n');
    const bool has_newline = end != std::string_view::npos;
    const std::string_view line = rest.substr(0, end);
    if (!has_newline && is_incomplete(line)) {
      return;
    }
    visit(line, file.path().string() + ", line " + std::to_string(number));
    rest.remove_prefix(has_newline ? end + 1 : rest.size());
  }
}

/// Makes the file end with a newline, unless it is empty.
void repair_end(AppendFile& file) {
  const MappedFile mapped(file.path());
  const auto bytes = mapped.bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.empty() || text.back() == '\n') {
    return;
  }
  const size_t newline = text.rfind('\n');
  const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  if (is_incomplete(text.substr(begin))) {
    file.truncate(begin);
  } else {
    file.append("\n");
  }
}

uint32_t crc32_of(std::string_view bytes, uint32_t before = 0) {
  return static_cast<uint32_t>(
      ::crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

uint32_t crc32_of(const MappedFile& file, uint64_t bytes) {
  return crc32_of({reinterpret_cast<const char*>(file.bytes().data()), bytes});
}

}  // namespace

MetricsFile::MetricsFile(const std::filesystem::path& path) : path_(path) {
  open();
}

void MetricsFile::open() {
  file_ = std::make_unique<AppendFile>(path_, AppendFile::Mode::Append);
  repair_end(*file_);
  const MappedFile mapped(path_);
  crc32_ = crc32_of(mapped, mapped.bytes().size());
}

MetricsFile::~MetricsFile() = default;

void MetricsFile::append(const Json& record) {
  TORCH_CHECK(has_step(record),
              "[metrics] expected an object with an integer \"step\", found ",
              kind_of(record));
  // Invalid UTF-8 must not end a run: such bytes become U+FFFD.
  const std::string line = record.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  file_->append(line);
  crc32_ = crc32_of(line, crc32_);
}

MetricsMark MetricsFile::sync() {
  file_->sync();
  return {file_->size(), crc32_};
}

void MetricsFile::return_to(const MetricsMark& mark) {
  const MappedFile mapped(path_);
  TORCH_CHECK(
      mapped.bytes().size() >= mark.bytes && crc32_of(mapped, mark.bytes) == mark.crc32,
      "[metrics] ",
      path_.string(),
      ": lines that the checkpoint was saved with are missing or changed. Restore the file, or "
      "move it away to go on with a new one.");
  file_->truncate(mark.bytes);
  file_->sync();
  crc32_ = mark.crc32;
}

void MetricsFile::truncate_after(int64_t step) {
  AtomicFile kept(path_);
  for_each_line(MappedFile(path_), [&](std::string_view line, const std::string& source) {
    if (parse_record(line, source).at("step").get<int64_t>() <= step) {
      kept.write(line);
      kept.write("\n");
    }
  });
  kept.commit();
  open();  // the old descriptor refers to the replaced file
}

std::vector<Json> MetricsFile::read(const std::filesystem::path& path) {
  std::vector<Json> records;
  for_each_line(MappedFile(path), [&](std::string_view line, const std::string& source) {
    records.push_back(parse_record(line, source));
  });
  return records;
}

}  // namespace reprise
