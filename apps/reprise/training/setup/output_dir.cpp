#include "reprise/training/setup/output_dir.h"

#include "reprise/training/effects/same_run.h"

#include <reprise/io/file.h>
#include <reprise/train/trainer.h>

#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>

#include <chrono>
#include <system_error>
#include <vector>

namespace reprise::app {

namespace fs = std::filesystem;

namespace {

bool belongs_to_a_run(const fs::path& entry) {
  const std::string name = entry.filename().string();
  return name.starts_with("checkpoint-") || name == "metrics.jsonl" || name == "samples.jsonl" ||
         name == "runs" || name == "training.yaml" || name == "report.html" ||
         name == "memory_plan.json" || (name.starts_with("memory") && name.ends_with(".html")) ||
         name == "ema";
}

bool is_model_file(const fs::path& entry) {
  const std::string name = entry.filename().string();
  return name.starts_with("adapter_") || name == "critic" ||
         (name.starts_with("model") && name.find(".safetensors") != std::string::npos);
}

template <class Kind>
bool holds(const fs::path& folder, const Kind& is_kind) {
  std::error_code not_there;
  for (const auto& entry : fs::directory_iterator(folder, not_there)) {
    if (is_kind(entry.path())) {
      return true;
    }
  }
  return false;
}

template <class Kind>
void remove_all(const fs::path& folder, const Kind& is_kind) {
  std::vector<fs::path> doomed;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (is_kind(entry.path())) {
      doomed.push_back(entry.path());
    }
  }
  for (const auto& path : doomed) {
    fs::remove_all(path);
  }
}

}  // namespace

fs::path check_output(const TrainingFlags& flags, const Json& configuration, int64_t world_size) {
  const fs::path output = flags.output_dir;
  if (flags.overwrite_output_dir) {
    return {};
  }
  if (flags.resume_from_checkpoint.empty()) {
    TORCH_CHECK(
        !holds(output, belongs_to_a_run),
        output.string(),
        ": holds another run. Resume it with --resume_from_checkpoint auto, replace it with "
        "--overwrite_output_dir, or choose another --output_dir.");
    return {};
  }
  const fs::path checkpoint = flags.resume_from_checkpoint == "auto"
                                  ? latest_checkpoint(output)
                                  : fs::path(flags.resume_from_checkpoint);
  TORCH_CHECK(!checkpoint.empty() || !holds(output, is_model_file),
              output.string(),
              ": has a model but no checkpoint to resume from: its run is done. Start again with "
              "--overwrite_output_dir, or choose another --output_dir.");
  if (!checkpoint.empty()) {
    check_same_run(checkpoint, flags, configuration, world_size);
  }
  return checkpoint;
}

void clear_output(const TrainingFlags& flags) {
  const fs::path output = flags.output_dir;
  create_folder(output);
  if (flags.overwrite_output_dir) {
    remove_all(output, [](const fs::path& entry) {
      return belongs_to_a_run(entry) || is_model_file(entry);
    });
  }
  remove_unfinished_files(output);  // this run owns the folder, so nobody else writes to it
}

void check_shared(const fs::path& output, const World& world) {
  if (world.size() == 1) {
    return;
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  const std::string what = "looking for what rank 0 wrote into " + output.string();
  const fs::path probe = output / world.broadcast(".shared-" + std::to_string(now), what);
  const auto remove_probe = c10::make_scope_exit([&] {
    if (world.is_first()) {
      std::error_code ignored;
      fs::remove(probe, ignored);
    }
  });
  world.run_on_first(what, [&] {
    create_folder(output);
    write_file(probe, "All processes of this run see this file.\n");
  });
  world.run_on_all(what, [&] {
    TORCH_CHECK(fs::exists(probe),
                output.string(),
                ": rank ",
                world.rank(),
                " does not see what rank 0 writes there. All processes need the same "
                "--output_dir, on a file system that their machines share");
  });
}

}  // namespace reprise::app
