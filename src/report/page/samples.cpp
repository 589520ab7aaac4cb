// Tables of sampled completions: the newest steps are open, older ones collapsed. Prompts and
// completions may be any text: they are escaped and truncated. samples.jsonl has everything.
#include "report/charts/axis.h"
#include "report/charts/series.h"
#include "report/page/html.h"
#include "report/page/parts.h"
#include "report/page/sections.h"
#include "text/unicode/utf8.h"

#include <reprise/report/units.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::report {
namespace {

constexpr size_t kOpenSteps = 5;
constexpr size_t kFoldedSteps = 45;
constexpr size_t kSamplesOfAStep = 50;
constexpr size_t kSources = 50;
constexpr size_t kCharacters = 2000;

struct StepSamples {
  double step;
  std::vector<const Json*> records;
};

/// Newest first, without records that have no step.
std::vector<StepSamples> by_step(const std::vector<Json>& records) {
  std::map<double, std::vector<const Json*>, std::greater<>> sorted;
  for (const Json& record : records) {
    if (const auto step = step_of(record)) {
      sorted[*step].push_back(&record);
    }
  }
  std::vector<StepSamples> steps;
  for (auto& [step, samples] : sorted) {
    steps.push_back({step, std::move(samples)});
  }
  return steps;
}

std::string note_html(const std::string& note) {
  return text_element("p", "note", note);
}

/// Text as the model saw or wrote it. Long text is truncated at a character boundary.
std::string said_html(const std::string& original) {
  if (original.empty()) {
    return note_html("Empty");
  }
  const std::string text = text::replace_invalid_utf8(original);
  size_t characters = 0, end = text.size();
  for (size_t at = 0; at < text.size(); ++at) {
    if (text::is_continuation(text[at])) {
      continue;
    }
    if (characters == kCharacters) {
      end = at;
    }
    ++characters;
  }
  const std::string shown =
      element("div", "class=\"said\" dir=\"auto\"", escaped(text.substr(0, end)));
  return end == text.size()
             ? shown
             : shown + note_html("The first " + std::to_string(kCharacters) + " of " +
                                 std::to_string(characters) + " characters");
}

std::string score_html(const std::string& name, std::optional<double> value) {
  return text_element("dt", "", name) +
         text_element("dd", "", value ? with_unit(*value, Unit::Number) : "–");
}

/// A dash stands for a source that could not score the completion.
std::string scores_html(const Json& sample) {
  std::string scores = score_html("reward", number_at(sample, "reward")) +
                       score_html("advantage", number_at(sample, "advantage"));
  const auto rewards = sample.find("rewards");
  if (rewards != sample.end() && rewards->is_object()) {
    size_t sources = 0;
    for (const auto& [name, value] : rewards->items()) {
      if (sources++ < kSources) {
        scores += score_html(name, number_at(*rewards, name));
      }
    }
  }
  return element("dl", "", scores);
}

std::string completion_html(const Json& sample) {
  const auto finished = sample.find("is_finished");
  const bool is_truncated = finished != sample.end() && *finished == Json(false);
  return said_html(text_at(sample, "completion")) +
         (is_truncated ? note_html("Stopped at the length limit") : std::string());
}

/// The samples of a prompt share one cell with the prompt.
std::string rows_html(const std::vector<const Json*>& samples) {
  std::string rows;
  for (size_t first = 0; first < samples.size();) {
    const std::string prompt = text_at(*samples[first], "prompt");
    size_t end = first + 1;
    while (end < samples.size() && text_at(*samples[end], "prompt") == prompt) {
      ++end;
    }
    std::string cell =
        element("td", "rowspan=\"" + std::to_string(end - first) + "\"", said_html(prompt));
    for (; first < end; ++first) {
      rows += element("tr",
                      "",
                      cell + element("td", "", completion_html(*samples[first])) +
                          element("td", "", scores_html(*samples[first])));
      cell.clear();
    }
  }
  return rows;
}

std::string step_html(const StepSamples& step) {
  const auto wide_row = [](const std::string& content) {
    return element("tr", "", element("th", "colspan=\"3\"", content));
  };
  const size_t count = step.records.size(), shown = std::min(count, kSamplesOfAStep);
  std::string rows =
      wide_row(escaped("Step " + human_number(step.step, 15))) +
      rows_html({step.records.begin(), step.records.begin() + static_cast<std::ptrdiff_t>(shown)});
  if (shown < count) {
    rows += wide_row(note_html(std::to_string(count - shown) + " more in samples.jsonl"));
  }
  return element("tbody", "", rows);
}

std::string table_of(const std::vector<StepSamples>& steps) {
  std::string bodies;
  for (const StepSamples& step : steps) {
    bodies += step_html(step);
  }
  std::string head;
  for (const char* const name : {"Prompt", "Completion", "Rewards"}) {
    head += text_element("th", "", name);
  }
  return element("div",
                 "class=\"card table samples\"",
                 element("table", "", element("thead", "", element("tr", "", head)) + bodies));
}

/// If there are many steps, an even selection from the newest to the oldest shows the progress.
std::string folded_html(const std::vector<StepSamples>& older) {
  if (older.empty()) {
    return {};
  }
  const size_t shown = std::min(older.size(), kFoldedSteps);
  std::vector<StepSamples> chosen;
  for (size_t i = 0; i < shown; ++i) {
    chosen.push_back(older[shown == 1 ? 0 : i * (older.size() - 1) / (shown - 1)]);
  }
  std::string label = "Older samples: " + std::to_string(shown);
  if (shown < older.size()) {
    label += " of " + std::to_string(older.size());
  }
  label += older.size() == 1 ? " step" : " steps";
  return element("details", "", text_element("summary", "", label) + table_of(chosen));
}

}  // namespace

std::string samples_html(const Runs& runs) {
  std::string tables;
  for (const ReportRun& run : runs) {
    const std::vector<StepSamples> steps = by_step(run.samples);
    if (steps.empty()) {
      continue;
    }
    const auto older =
        steps.begin() + static_cast<std::ptrdiff_t>(std::min(steps.size(), kOpenSteps));
    tables += (runs.size() > 1 ? text_element("h3", "", run.name) : std::string()) +
              table_of({steps.begin(), older}) + folded_html({older, steps.end()});
  }
  return section_html("Samples", tables);
}

}  // namespace reprise::report
