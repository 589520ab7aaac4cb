// report.html: a run, or several side by side, as one file that opens from disk: no network, no
// other file, light and dark. The figures are drawn here; a small script only shows values under
// the pointer.
//
// Step records are those of MetricsFile. A key that no record has gets no chart; numbers that are
// not finite become gaps that are marked. Known keys: loss, eval_loss, learning_rate, grad_norm,
// rewards/..., logps/..., kl, entropy, mean_token_accuracy, tokens, step_ms, recompute_ms,
// peak_bytes, activation_bytes, estimated_activation_bytes (what it would be without
// checkpointing), memory: {parameters, gradients, optimizer, activations, recompute, logits, other}
// in bytes; of online training what train_online writes: reward, reward_std, rewards/<name>/...,
// completions/..., clip_ratio/..., critic/..., and of the phases rollout, scoring and update _ms
// and _peak_bytes. Other numbers get a chart each.
#pragma once

#include <reprise/export.h>
#include <reprise/io/json.h>

#include <filesystem>
#include <string>
#include <vector>

namespace reprise {

struct ReportRun {
  std::string name;
  std::vector<Json> steps;
  /// Shown as a table. The page's head takes from it, where they are there: title, model, data,
  /// objective, checkpointing (a sentence), blocks (how many the model has), checkpointed_blocks
  /// (their numbers).
  Json configuration = Json::object();
  /// Final figures, shown as a table; keys that end in _bytes, _ms or _seconds get units.
  /// warnings: a list of texts, shown first.
  Json summary = Json::object();
  /// What a policy answered, records of samples.jsonl: {step, prompt, completion, rewards: {name:
  /// number or null}, reward, advantage, is_finished}. Shown as a table, the newest steps first.
  std::vector<Json> samples = {};
};

/// The page as text.
REPRISE_API std::string report_html(const std::vector<ReportRun>& runs);

/// Writes the page whole or not at all.
REPRISE_API void write_report(const std::filesystem::path& path,
                              const std::vector<ReportRun>& runs);
REPRISE_API void write_report(const std::filesystem::path& path,
                              const std::vector<Json>& steps,
                              const Json& configuration,
                              const Json& summary);

}  // namespace reprise
