#include "reprise/launch/restart.h"

#include <reprise/train/trainer.h>

#include <algorithm>
#include <system_error>

namespace reprise::app {

namespace fs = std::filesystem;

namespace {

std::optional<fs::file_time_type> time_of(const fs::path& file) {
  std::error_code not_there;
  const auto time = fs::last_write_time(file, not_there);
  return not_there ? std::nullopt : std::optional(time);
}

/// The flag's name in --resume_from_checkpoint, --resume_from_checkpoint=x or
/// resume_from_checkpoint=x; empty for a word that names no flag.
std::string flag_of(const std::string& word) {
  const size_t begin = std::min(word.find_first_not_of('-'), word.size());
  const size_t equals = word.find('=');
  return begin == 2 || equals != std::string::npos ? word.substr(begin, equals - begin) : "";
}

}  // namespace

RunMark::RunMark(const fs::path& output) : output_(output), before_(state()) {}

RunMark::State RunMark::state() const {
  const fs::path checkpoint = latest_checkpoint(output_);
  return {time_of(output_ / "training.yaml"),
          checkpoint,
          checkpoint.empty() ? std::nullopt : time_of(checkpoint / "trainer_state.json")};
}

bool RunMark::has_begun() const {
  const State now = state();
  return now.begun && now.begun != before_.begun;
}

bool RunMark::has_saved() const {
  const State now = state();
  return has_begun() && !now.checkpoint.empty() &&
         (now.checkpoint != before_.checkpoint || now.saved != before_.saved);
}

std::vector<std::string> resuming_words(const std::vector<std::string>& words,
                                        const std::string& checkpoint) {
  std::vector<std::string> kept;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string flag = flag_of(words[i]);
    const bool is_resume = flag == "resume_from_checkpoint";
    if (!is_resume && flag != "overwrite_output_dir" && flag != "no_overwrite_output_dir") {
      kept.push_back(words[i]);
      continue;
    }
    // Skip the value if it is a separate word. The next word belongs to a switch only if it cannot
    // be anything else.
    const bool is_alone = words[i].find('=') == std::string::npos && i + 1 < words.size();
    const bool has_value =
        is_alone &&
        (is_resume || (!words[i + 1].starts_with("-") && flag_of(words[i + 1]).empty()));
    i += has_value ? 1 : 0;
  }
  kept.insert(kept.end(), {"--resume_from_checkpoint", checkpoint, "--no_overwrite_output_dir"});
  return kept;
}

}  // namespace reprise::app
