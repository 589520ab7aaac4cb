// How a run that failed is started again.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace reprise::app {

/// Whether a run has begun in its output folder since this was made. Until then the folder may
/// still hold an older run, which the one that failed was told to remove.
class RunMark {
 public:
  explicit RunMark(const std::filesystem::path& output);
  bool has_begun() const;

 private:
  std::filesystem::path file_;
  std::optional<std::filesystem::file_time_type> before_;
};

/// A training command's words, so that it goes on where it stopped: with --resume_from_checkpoint
/// auto, and without --overwrite_output_dir, also if a --config file says it.
std::vector<std::string> words_to_go_on(const std::vector<std::string>& words);

}  // namespace reprise::app
