// metrics.jsonl: what a run measured, one JSON object a line with an integer "step". Each line is
// handed to the kernel as it is written, so that a killed process loses at most the line it was
// writing. A number that is not finite is written as null, as JSON knows none.
#pragma once

#include <reprise/export.h>
#include <reprise/io/json.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

namespace reprise {

namespace detail {
class AppendFile;
}

class REPRISE_API MetricsFile {
 public:
  /// Makes the file unless it is there; otherwise goes on behind its last whole line. A torn line
  /// that a killed process left at the end is dropped.
  explicit MetricsFile(const std::filesystem::path& path);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  /// Adds one line. Throws if `record` is not an object with an integer "step", or the disk is
  /// full.
  void append(const Json& record);

  /// Goes back to the end of `step`: keeps the lines of steps up to it. The old file is replaced in
  /// one go, so that a process killed meanwhile leaves the old lines or the new ones.
  void cut_back(int64_t step);

  /// All records of a file. A torn last line is left out; any other line that is not such a record
  /// is an error that names the line.
  static std::vector<Json> read(const std::filesystem::path& path);

 private:
  std::filesystem::path path_;
  std::unique_ptr<detail::AppendFile> file_;
};

}  // namespace reprise
