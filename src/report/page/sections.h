// The sections of the page, top to bottom. Each is "" if the runs have no data for it.
#pragma once

#include <reprise/report/report.h>

#include <string>
#include <vector>

namespace reprise::report {

using Runs = std::vector<ReportRun>;

/// The title, not escaped.
std::string title_of(const Runs& runs);
/// Title, and what was run.
std::string header_html(const Runs& runs);
/// Warnings from the summary, and those derived from the records.
std::string warnings_html(const Runs& runs);
/// The key figures: tiles for one run, a table to compare several.
std::string headline_html(const Runs& runs);
/// Charts of the loss and the objective's metrics.
std::string learning_html(const Runs& runs);
/// Charts of memory and speed.
std::string resources_html(const Runs& runs);
/// All other charts: the optimizer's, and unknown keys.
std::string other_charts_html(const Runs& runs);
/// Metrics with one value over the whole run, which have no chart.
std::string constants_html(const Runs& runs);
/// What checkpointing saved and what it cost.
std::string checkpointing_html(const Runs& runs);
/// Sampled completions and their rewards.
std::string samples_html(const Runs& runs);
/// Final figures, and the configuration.
std::string tables_html(const Runs& runs);

/// A string unchanged, any other value as JSON; "" if there is none.
std::string text_at(const Json& object, const std::string& key);

/// "mean_token_accuracy" as "Mean token accuracy".
std::string label_of(const std::string& key);

}  // namespace reprise::report
