// libFuzzer: a byte, and metrics.jsonl of a run that was killed and is resumed. After the file was
// opened it takes a line more; a mark brings it back; what truncate_after() leaves is read, with no
// later step.
#include "fuzzed_folder.h"

#include <reprise/report/metrics_file.h>

#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

namespace {

using reprise::Json;
using reprise::MetricsFile;
using Records = std::vector<Json>;

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

/// std::nullopt: a line is no record.
std::optional<Records> read(const std::filesystem::path& path) {
  try {
    return MetricsFile::read(path);
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

/// What the mark was made of is there again, whatever was written since.
void check_return(MetricsFile& file, const std::filesystem::path& path) {
  const auto before = read(path);
  const auto mark = file.sync();
  require(mark.bytes == std::filesystem::file_size(path));
  file.append({{"step", 1}});
  if (before) {
    require(read(path)->size() == before->size() + 1);
  }
  file.return_to(mark);
  require(std::filesystem::file_size(path) == mark.bytes && read(path) == before);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const reprise::testing::FuzzedFolder folder("metrics_fuzz");
  static const auto path = folder.path() / "metrics.jsonl";
  if (size == 0) {
    return 0;
  }
  const int64_t last_step = data[0];
  folder.write("metrics.jsonl", {data + 1, size - 1});
  const auto killed = read(path);
  MetricsFile file(path);
  require(read(path) == killed);
  check_return(file, path);
  try {
    file.truncate_after(last_step);
  } catch (const c10::Error&) {
    require(!killed && read(path) == killed);
    return 0;
  }
  const auto kept = read(path);
  require(kept.has_value());
  for (const Json& record : *kept) {
    const Json& step = record["step"];
    require(step.is_number_unsigned() ? step.get<uint64_t>() <= static_cast<uint64_t>(last_step)
                                      : step.get<int64_t>() <= last_step);
  }
  check_return(file, path);
  return 0;
}
