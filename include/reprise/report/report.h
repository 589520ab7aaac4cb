// report.html: one run, or several side by side, as a single self-contained HTML file that needs no
// network and supports light and dark mode. Charts are complete without scripts; a small script
// draws them to the width of the screen, shows values under the pointer, zooms, smooths, and
// changes axes (logarithmic, time).
//
//   reprise::write_report("report.html", {{.name = "run",
//                                          .steps = reprise::MetricsFile::read("metrics.jsonl")}});
//
// Charts follow from the keys of the step records (lines of metrics.jsonl). Values that are not
// finite become marked gaps. Known keys have charts of their own: loss, eval_loss, learning_rate,
// grad_norm, rewards/..., logps/..., kl, entropy, mean_token_accuracy, tokens, step_ms,
// recompute_ms, peak_bytes, activation_bytes, activation_peak_bytes (what a budget limits),
// estimated_activation_bytes (kept without checkpointing), budget: {planning_ms},
// memory: {parameters, gradients, optimizer, activations, recompute, logits, other} in bytes; and
// what train_online() writes: reward, reward_std, rewards/<name>/..., completions/...,
// clip_ratio/..., critic/..., and <phase>_ms and <phase>_peak_bytes of the phases rollout, scoring
// and update. Other numbers get charts by the beginnings of their names; a metric and its eval_ one
// share a chart. What is constant over the run is in a table.
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
  /// data, objective, checkpointing (a sentence), blocks (the number of the model's blocks),
  /// checkpointed_blocks (their indices), date, host, device_name, version, libtorch, seed,
  /// command.
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
