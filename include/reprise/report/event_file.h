// Writes TensorBoard event files: `tensorboard --logdir folder` shows a run while it trains. Tags
// are those of transformers' Trainer and TRL: train/loss, train/rewards/chosen, eval/loss.
#pragma once

#include <reprise/export.h>
#include <reprise/io/json.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace reprise {

namespace report {
class AppendFile;
}

/// Wall times are seconds since 1970. Each event is in the file when the call returns, so
/// TensorBoard sees it at once. Use it from one thread at a time.
class REPRISE_API EventFile {
 public:
  /// Creates a new file, events.out.tfevents.<time>.<host>.<pid>.<count>, and the folder if needed.
  explicit EventFile(const std::filesystem::path& folder);
  EventFile(const std::filesystem::path& folder, double wall_time);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  void add_scalar(const std::string& tag, double value, int64_t step, double wall_time);

  /// Adds every number of a line of metrics.jsonl, under its step: "eval_loss" becomes eval/loss,
  /// memory: {activations} becomes memory/activations, any other key becomes train/key. Values that
  /// are not numbers are skipped.
  void add_record(const Json& record, double wall_time);

  /// Adds Markdown text, shown on TensorBoard's Text page under `tag`.
  void add_text(const std::string& tag, std::string_view text, double wall_time);

  /// Marks that the run resumed after `step`: TensorBoard drops later steps of earlier files.
  void mark_restart_after(int64_t step, double wall_time);

  const std::filesystem::path& path() const;

 private:
  std::unique_ptr<report::AppendFile> file_;
};

}  // namespace reprise
