// A report as its tests see it: markup that is whole, and the data of each chart.
#pragma once

#include "report/markup.h"

#include <reprise/report/report.h>

#include <gtest/gtest.h>

#include <algorithm>
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
