// The parts of the page, top to bottom. Each is "" when the runs have nothing for it.
#pragma once

#include <reprise/train/report.h>

#include <string>
#include <vector>

namespace reprise::report {

using Runs = std::vector<ReportRun>;

/// The title, not escaped.
std::string title_of(const Runs& runs);
/// Title, and what was run.
std::string header_html(const Runs& runs);
/// Warnings of the summary, and those that the records give rise to.
std::string warnings_html(const Runs& runs);
/// The figures that are asked for first: tiles for one run, a table to compare several.
std::string headline_html(const Runs& runs);
/// Charts of loss and of the objective's own metrics.
std::string learning_html(const Runs& runs);
/// Charts of memory and speed.
std::string resources_html(const Runs& runs);
/// Charts of all else: the optimizer's, and of keys that are not known here.
std::string other_charts_html(const Runs& runs);
/// What checkpointing saved and what it cost.
std::string checkpointing_html(const Runs& runs);
/// What the policies answered and how it was rewarded.
std::string samples_html(const Runs& runs);
/// Final figures, and the configuration.
std::string tables_html(const Runs& runs);

/// A string as it is, any other value as JSON; "" if there is none.
std::string text_at(const Json& object, const std::string& key);

/// "mean_token_accuracy" as "Mean token accuracy".
std::string label_of(const std::string& key);

}  // namespace reprise::report
