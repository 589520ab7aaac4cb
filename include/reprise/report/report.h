// report.html: one run, or several side by side, as a single self-contained HTML file that needs no
// network and supports light and dark mode. Charts are static SVG; a small script only shows values
// under the pointer.
//
//   reprise::write_report("report.html", {{.name = "run",
//                                          .steps = reprise::MetricsFile::read("metrics.jsonl")}});
//
// Charts follow from the keys of the step records (lines of metrics.jsonl). Values that are not
// finite become marked gaps. Known keys have charts of their own: loss, eval_loss, learning_rate,
// grad_norm, rewards/..., logps/..., kl, entropy, mean_token_accuracy, tokens, step_ms,
// recompute_ms, peak_bytes, activation_bytes, estimated_activation_bytes (without checkpointing),
// memory: {parameters, gradients, optimizer, activations, recompute, logits, other} in bytes; and
// what train_online() writes: reward, reward_std, rewards/<name>/..., completions/...,
// clip_ratio/..., critic/..., and <phase>_ms and <phase>_peak_bytes of the phases rollout, scoring
// and update. Every other number gets a simple chart.
#pragma once

#include <reprise/export.h>
#include <reprise/io/json.h>

#include <filesystem>
#include <string>
#include <vector>

namespace reprise {

struct ReportRun {
  std::string name;
  std::vector<Json> steps;  ///< lines of metrics.jsonl
  /// Shown as a table. These keys, if present, are shown at the top of the page: title, model,
  /// data, objective, checkpointing (a sentence), blocks (the number of the model's blocks) and
  /// checkpointed_blocks (their indices).
  Json configuration = Json::object();
  /// Final numbers, shown as a table; keys that end in _bytes, _ms or _seconds get units. The key
  /// "warnings" is a list of texts that are shown first.
  Json summary = Json::object();
  /// Sampled completions, lines of samples.jsonl: {step, prompt, completion, rewards: {name: number
  /// or null}, reward, advantage, is_finished}. Shown as a table, the newest steps first.
  std::vector<Json> samples = {};
};

/// The page as text.
REPRISE_API std::string report_html(const std::vector<ReportRun>& runs);

/// Writes the page atomically.
REPRISE_API void write_report(const std::filesystem::path& path,
                              const std::vector<ReportRun>& runs);
REPRISE_API void write_report(const std::filesystem::path& path,
                              const std::vector<Json>& steps,
                              const Json& configuration,
                              const Json& summary);

}  // namespace reprise
