// The head of the page: what was run, and warnings.
#include "report/charts/series.h"
#include "report/page/html.h"
#include "report/page/sections.h"

#include <reprise/report/units.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::report {
namespace {

/// What all runs have in common; differences are in the tables.
std::string fact_html(const Runs& runs, const char* key, const char* label) {
  const std::string text = text_at(runs.front().configuration, key);
  for (const ReportRun& run : runs) {
    if (text.empty() || text_at(run.configuration, key) != text) {
      return {};
    }
  }
  const bool is_long = std::string_view(key) == "command";
  return element("div",
                 is_long ? "class=\"command\"" : "",
                 text_element("dt", "", label) + text_element("dd", "", text));
}

void add_broken(std::vector<std::string>& warnings, const ReportRun& run, const char* key) {
  const Series series = series_of(run.steps, key);
  if (!series.broken_steps.empty()) {
    const size_t count = series.broken_steps.size();
    warnings.push_back(label_of(key) + " was not finite at " + std::to_string(count) +
                       (count == 1 ? " step" : " steps") + ", first at step " +
                       human_number(series.broken_steps.front(), 15) + ".");
  }
}

std::vector<std::string> warnings_of(const ReportRun& run) {
  std::vector<std::string> warnings;
  const auto given = run.summary.is_object() ? run.summary.find("warnings") : run.summary.end();
  if (given != run.summary.end() && given->is_array()) {
    for (const Json& warning : *given) {
      warnings.push_back(warning.is_string() ? warning.get<std::string>() : warning.dump());
    }
  }
  for (const char* const key : {"loss", "grad_norm", "eval_loss", "reward"}) {
    add_broken(warnings, run, key);
  }
  return warnings;
}

}  // namespace

std::string text_at(const Json& object, const std::string& key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end() || found->is_null()) {
    return {};
  }
  return found->is_string() ? found->get<std::string>()
                            : found->dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string title_of(const Runs& runs) {
  const Json& configuration = runs.front().configuration;
  if (const std::string title = text_at(configuration, "title"); !title.empty()) {
    return title;
  }
  const std::string objective = text_at(configuration, "objective");
  const std::string model = text_at(configuration, "model");
  const bool has_both = !objective.empty() && !model.empty();
  const std::string title = objective + (has_both ? " of " : "") + model;
  return title.empty() ? "Training run" : title;
}

std::string header_html(const Runs& runs) {
  std::string facts;
  for (const auto& [key, label] : {std::pair{"model", "Model"},
                                   std::pair{"data", "Data"},
                                   std::pair{"objective", "Objective"},
                                   std::pair{"checkpointing", "Checkpointing"},
                                   std::pair{"date", "Date"},
                                   std::pair{"host", "Host"},
                                   std::pair{"device_name", "Device"},
                                   std::pair{"version", "Reprise"},
                                   std::pair{"libtorch", "LibTorch"},
                                   std::pair{"seed", "Seed"},
                                   std::pair{"command", "Command"}}) {
    facts += fact_html(runs, key, label);
  }
  return element("header",
                 "",
                 text_element("p", "eyebrow", "Reprise training report") +
                     text_element("h1", "", title_of(runs)) +
                     (facts.empty() ? facts : element("dl", "class=\"facts\"", facts))) +
         "\n";
}

std::string warnings_html(const Runs& runs) {
  std::string items;
  for (const ReportRun& run : runs) {
    for (const std::string& warning : warnings_of(run)) {
      items += text_element("li", "", runs.size() == 1 ? warning : run.name + ": " + warning);
    }
  }
  return items.empty() ? items
                       : element("aside",
                                 "class=\"warnings\"",
                                 text_element("h2", "", "Warnings") + element("ul", "", items)) +
                             "\n";
}

}  // namespace reprise::report
