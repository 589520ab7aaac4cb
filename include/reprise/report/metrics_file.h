// metrics.jsonl: the metrics of a run, one JSON object per line with an integer "step". Each line
// is in the file when the call returns, so a killed process loses at most the line that it was
// writing. Numbers that are not finite are written as null, since JSON has no NaN or infinity.
#pragma once

#include <reprise/export.h>
#include <reprise/io/json.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

namespace reprise {

namespace report {
class AppendFile;
}

/// How far the file was written at some moment, and the checksum of that part.
struct MetricsMark {
  uint64_t bytes = 0;
  uint32_t crc32 = 0;
};

class REPRISE_API MetricsFile {
 public:
  /// Creates the file, or appends to an existing one. An incomplete line that a killed process left
  /// at the end is removed.
  explicit MetricsFile(const std::filesystem::path& path);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  /// Adds one line. Throws if `record` is not an object with an integer "step", or if it cannot be
  /// written.
  void append(const Json& record);

  /// Removes the lines of steps after `step`. The file is replaced atomically, so a process that is
  /// killed meanwhile leaves either the old lines or the new ones.
  void truncate_after(int64_t step);

  /// Waits until all lines are on disk, also after a power failure from then on.
  MetricsMark sync();

  /// Removes what was written after the mark. Throws if lines before it are missing or changed.
  void return_to(const MetricsMark& mark);

  /// All records of a file. An incomplete last line is skipped; any other line that is not a record
  /// is an error that names the line.
  static std::vector<Json> read(const std::filesystem::path& path);

 private:
  void open();

  std::filesystem::path path_;
  std::unique_ptr<report::AppendFile> file_;
  uint32_t crc32_ = 0;  // of the whole file
};

}  // namespace reprise
