// A TensorBoard event file: `tensorboard --logdir folder` shows the run while it goes on. Tags are
// those of transformers' Trainer and TRL: train/loss, train/rewards/chosen, eval/loss.
#pragma once

#include <reprise/export.h>
#include <reprise/io/json.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace reprise {

namespace detail {
class AppendFile;
}

/// Wall times are seconds since 1970. Each event is handed to the kernel as it is added.
class REPRISE_API EventFile {
 public:
  /// Makes a new file, events.out.tfevents.<time>.<host>.<pid>.<count>, and the folder if need be.
  explicit EventFile(const std::filesystem::path& folder);
  EventFile(const std::filesystem::path& folder, double wall_time);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  void add_scalar(const std::string& tag, double value, int64_t step, double wall_time);

  /// Every number of a record as MetricsFile takes it, under its step: "eval_loss" becomes
  /// eval/loss, memory: {activations} becomes memory/activations, any other key train/key. What is
  /// no number is left out.
  void add_record(const Json& record, double wall_time);

  /// Shown on TensorBoard's Text page as `tag`, as Markdown.
  void add_text(const std::string& tag, std::string_view text, double wall_time);

  /// The run goes on after `step`: TensorBoard forgets what earlier files say of later steps.
  void mark_restart_after(int64_t step, double wall_time);

  const std::filesystem::path& path() const;

 private:
  std::unique_ptr<detail::AppendFile> file_;
};

}  // namespace reprise
