// The key figures: tiles with notes for one run, a table for several.
#include "report/charts/axis.h"
#include "report/page/figures.h"
#include "report/page/html.h"
#include "report/page/parts.h"
#include "report/page/sections.h"

#include <reprise/report/units.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace reprise::report {
namespace {

struct Headline {
  const char* label;
  std::function<std::optional<std::string>(const Figures&)> value;
  std::function<std::string(const Figures&)> note;
};

std::optional<std::string> shown(std::optional<double> value, Unit unit) {
  return value ? std::optional(with_unit(*value, unit)) : std::nullopt;
}

std::optional<std::string> shown_count(std::optional<double> count) {
  return count ? std::optional(human_count(*count)) : std::nullopt;
}

/// In online training the loss does not tell how good the policy is.
std::optional<double> telling_loss(const Figures& figures) {
  return figures.last_reward ? std::nullopt : figures.last_loss;
}

const std::vector<Headline>& headlines() {
  static const std::vector<Headline> all = {
      {"Final reward",
       [](const Figures& f) { return shown(f.last_reward, Unit::Number); },
       [](const Figures& f) {
         return "from " + with_unit(*f.first_reward, Unit::Number) + ", means of 10 % of steps";
       }},
      {"Best eval reward",
       [](const Figures& f) { return shown(f.best_eval_reward, Unit::Number); },
       [](const Figures& f) { return "at step " + human_number(*f.best_reward_step, 15); }},
      {"Final loss",
       [](const Figures& f) { return shown(telling_loss(f), Unit::Number); },
       [](const Figures& f) { return "from " + with_unit(*f.first_loss, Unit::Number); }},
      {"Best eval loss",
       [](const Figures& f) { return shown(f.best_eval_loss, Unit::Number); },
       [](const Figures& f) { return "at step " + human_number(*f.best_eval_step, 15); }},
      {"Peak memory",
       [](const Figures& f) { return shown(f.peak_bytes, Unit::Bytes); },
       [](const Figures&) { return "highest of all steps"; }},
      {"Activations saved",
       [](const Figures& f) { return shown(f.saved_share(), Unit::Share); },
       [](const Figures& f) {
         return human_bytes(*f.activation_bytes) + " instead of " +
                human_bytes(*f.plain_activation_bytes);
       }},
      {"Recompute",
       [](const Figures& f) { return shown(f.recompute_share(), Unit::Share); },
       [](const Figures& f) { return "of a step's " + with_unit(*f.step_ms, Unit::Milliseconds); }},
      {"Rollout speed",
       [](const Figures& f) { return shown_count(f.rollout_tokens_per_second); },
       [](const Figures&) { return "tokens per second"; }},
      {"Throughput",
       [](const Figures& f) { return shown_count(f.tokens_per_second); },
       [](const Figures&) { return "tokens per second"; }},
      {"Planning",
       [](const Figures& f) {
         return f.planning_ms > 0 ? std::optional(human_seconds(f.planning_ms / 1000))
                                  : std::nullopt;
       },
       [](const Figures&) { return "not part of the steps"; }},
      {"Training time",
       [](const Figures& f) {
         return f.total_ms > 0 ? std::optional(human_seconds(f.total_ms / 1000)) : std::nullopt;
       },
       [](const Figures& f) {
         return std::to_string(f.steps) + (f.steps == 1 ? " step" : " steps") +
                (f.total_tokens > 0 ? ", " + human_count(f.total_tokens) + " tokens" : "");
       }},
  };
  return all;
}

std::string tiles_html(const Figures& figures) {
  constexpr int kInARow = 7;
  std::string tiles;
  int count = 0;
  for (const Headline& headline : headlines()) {
    if (const auto value = headline.value(figures)) {
      tiles += tile_html(headline.label, *value, headline.note(figures));
      ++count;
    }
  }
  const bool needs_rows = count > kInARow;  // of equal length, rather than a full row and a rest
  return tiles.empty()
             ? tiles
             : element("div", needs_rows ? "class=\"tiles many\"" : "class=\"tiles\"", tiles);
}

std::string comparison_html(const Runs& runs) {
  std::vector<Figures> figures;
  for (const ReportRun& run : runs) {
    figures.push_back(figures_of(run));
  }
  std::string head = text_element("th", "", "Run");
  std::vector<const Headline*> columns;
  for (const Headline& headline : headlines()) {
    if (std::any_of(figures.begin(), figures.end(), headline.value)) {
      columns.push_back(&headline);
      head += text_element("th", "number", headline.label);
    }
  }
  std::string body;
  for (size_t run = 0; run < runs.size(); ++run) {
    std::string row = text_element("th", "", runs[run].name);
    for (const Headline* const column : columns) {
      row += text_element("td", "number", column->value(figures[run]).value_or("–"));
    }
    body += element("tr", "", row);
  }
  return table_html(head, body);
}

}  // namespace

std::string headline_html(const Runs& runs) {
  return (runs.size() == 1 ? tiles_html(figures_of(runs.front())) : comparison_html(runs)) + "\n";
}

}  // namespace reprise::report
