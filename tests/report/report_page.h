// A report as its tests see it: markup that is whole, and the data of each chart.
#pragma once

#include "report/markup.h"

#include <reprise/report/report.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise::testing {

struct Page {
  Markup markup;
  std::vector<std::string> charts;  ///< their titles, top to bottom
  std::vector<Json> data;           ///< of each chart, what its pointer shows

  const Json* data_of(const std::string& title) const {
    const auto found = std::find(charts.begin(), charts.end(), title);
    return found == charts.end() ? nullptr : &data[static_cast<size_t>(found - charts.begin())];
  }
  bool shows(const std::string& text) const { return markup.text.find(text) != std::string::npos; }
};

constexpr int64_t kMiB = 1 << 20;

/// A run in which every known quantity is there and changes.
inline std::vector<Json> sample_steps(int count) {
  std::vector<Json> steps;
  for (int step = 1; step <= count; ++step) {
    steps.push_back({{"step", step},
                     {"loss", 1 + 2.0 / step},
                     {"grad_norm", 0.5 + 0.01 * step},
                     {"learning_rate", 1e-5 * step},
                     {"tokens", step == 1 ? 999 : 1000},
                     {"step_ms", step == 1 ? 101 : 100},
                     {"recompute_ms", 25},
                     {"peak_bytes", (step == 1 ? 280 : 300) * kMiB},
                     {"activation_bytes", (step == 1 ? 49 : 50) * kMiB},
                     {"estimated_activation_bytes", 200 * kMiB},
                     {"rewards/chosen", 0.1 * step},
                     {"rewards/accuracies", step == 1 ? 0.25 : 0.5},
                     {"memory", {{"parameters", 100 * kMiB}, {"activations", 50 * kMiB}}}});
  }
  steps.back()["eval_loss"] = 1.25;
  return steps;
}

inline Page open_html(const std::string& html) {
  const std::string label = "aria-label=\"", end = " by ";
  Page page{parse_markup(html), {}, {}};
  EXPECT_EQ(page.markup.error, "");
  for (const std::string& tag : page.markup.attributes) {
    if (const size_t at = tag.find(label); at != std::string::npos) {
      const size_t begin = at + label.size();
      page.charts.push_back(tag.substr(begin, tag.rfind(end) - begin));
    }
  }
  // The last script is the page's own.
  for (size_t i = 0; i + 1 < page.markup.scripts.size(); ++i) {
    page.data.push_back(Json::parse(page.markup.scripts[i]));
  }
  EXPECT_EQ(page.charts.size(), page.data.size());
  return page;
}

inline Page open_page(const std::vector<ReportRun>& runs) {
  return open_html(report_html(runs));
}

inline Page open_run(const std::vector<Json>& steps,
                     const Json& configuration = Json::object(),
                     const Json& summary = Json::object()) {
  return open_page({ReportRun{"run", steps, configuration, summary}});
}

}  // namespace reprise::testing
