// Restarts of a failed run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace reprise::app {

/// Observes whether a run has begun in its output folder since construction. Until then the folder
/// may still contain an older run that --overwrite_output_dir would delete.
class RunMark {
 public:
  explicit RunMark(const std::filesystem::path& output);
  bool has_begun() const;
  /// Whether the run has saved the latest checkpoint since construction.
  bool has_saved() const;

 private:
  using Time = std::optional<std::filesystem::file_time_type>;
  struct State {
    Time begun;
    std::filesystem::path checkpoint;  // the latest
    Time saved;
  };
  State state() const;

  std::filesystem::path output_;
  State before_;
};

/// The words of a training command changed to resume from a checkpoint ("auto": the latest),
/// without
/// --overwrite_output_dir, even if a --config file sets it.
std::vector<std::string> resuming_words(const std::vector<std::string>& words,
                                        const std::string& checkpoint);

}  // namespace reprise::app
