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
  /// Whether the latest checkpoint there is one that the run has made since.
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

/// A training command's words, so that it goes on from this checkpoint ("auto": the latest), and
/// without --overwrite_output_dir, also if a --config file says it.
std::vector<std::string> words_to_go_on(const std::vector<std::string>& words,
                                        const std::string& checkpoint);

}  // namespace reprise::app
