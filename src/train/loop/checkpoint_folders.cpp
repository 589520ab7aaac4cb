#include "train/loop/checkpoint_folders.h"

#include "io/sync.h"

#include <reprise/io/file.h>
#include <reprise/train/trainer.h>

#include <c10/util/Exception.h>

#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace reprise {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kFolderPrefix = "checkpoint-";

std::map<int64_t, fs::path> checkpoints_in(const fs::path& output) {
  std::map<int64_t, fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(output, ignored)) {
    const auto step = step_in_name(entry.path());
    if (step && entry.is_directory() && fs::exists(entry.path() / kTrainerStateFile)) {
      found.emplace(*step, entry.path());
    }
  }
  return found;
}

// Renames before removing, also on disk: a checkpoint that is half removed must not look complete.
void remove_checkpoint(const fs::path& checkpoint) {
  fs::path renamed = checkpoint;
  renamed += ".partial-removed";
  fs::rename(checkpoint, renamed);
  io::sync_folder(checkpoint.parent_path());
  std::error_code ignored;
  fs::remove_all(renamed, ignored);
}

}  // namespace

std::optional<int64_t> step_in_name(const fs::path& folder) {
  const fs::path path = folder.has_filename() ? folder : folder.parent_path();
  const std::string name = path.filename().string();
  if (!name.starts_with(kFolderPrefix)) {
    return std::nullopt;
  }
  int64_t step = 0;
  const char* last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data() + kFolderPrefix.size(), last, step);
  const bool is_number = error == std::errc() && end == last && step >= 0;
  return is_number ? std::optional(step) : std::nullopt;
}

fs::path checkpoint_folder(const fs::path& output, int64_t step) {
  return output / (std::string(kFolderPrefix) + std::to_string(step));
}

void remove_old_checkpoints(const fs::path& output, int64_t keep, int64_t best_step) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(output, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.find(".partial-") != std::string::npos) {
      fs::remove_all(entry.path(), ignored);
    }
  }
  auto checkpoints = checkpoints_in(output);
  checkpoints.erase(best_step);
  while (keep > 0 && std::ssize(checkpoints) > keep) {
    remove_checkpoint(checkpoints.begin()->second);
    checkpoints.erase(checkpoints.begin());
  }
}

bool continues_in(const fs::path& output, const fs::path& resume_from) {
  std::error_code ignored;
  return !resume_from.empty() &&
         fs::equivalent(fs::weakly_canonical(resume_from).parent_path(), output, ignored);
}

void prepare_output(const fs::path& output,
                    const fs::path& resume_from,
                    int64_t step,
                    int64_t best_step) {
  create_folder(output);
  const bool continues = continues_in(output, resume_from);
  TORCH_CHECK(continues || latest_checkpoint(output).empty(),
              "[train] ",
              output.string(),
              ": has checkpoints of another run. Resume from one of them, or name another folder.");
  remove_old_checkpoints(output, /*keep=*/0, best_step);
  const auto checkpoints = checkpoints_in(output);
  for (auto later = checkpoints.upper_bound(step); later != checkpoints.end(); ++later) {
    remove_checkpoint(later->second);
  }
}

fs::path latest_checkpoint(const fs::path& output) {
  const auto checkpoints = checkpoints_in(output);
  return checkpoints.empty() ? fs::path() : checkpoints.rbegin()->second;
}

}  // namespace reprise
