// The page put together.
#include "train/report/assets.h"
#include "train/report/html.h"
#include "train/report/sections.h"

#include <reprise/io/file.h>
#include <reprise/train/report.h>

#include <c10/util/Exception.h>

namespace reprise {
namespace report {

std::string section_html(const std::string& heading, const std::string& content) {
  return content.empty() ? content
                         : element("section", "", text_element("h2", "", heading) + content) + "\n";
}

}  // namespace report

std::string report_html(const std::vector<ReportRun>& runs) {
  using namespace report;
  TORCH_CHECK(!runs.empty(), "[report] expected at least one run, found none");
  const std::string head =
      "<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n" +
      text_element("title", "", title_of(runs) + " – Reprise") + "\n" +
      element("style", "", page_style()) + "\n";
  const std::string body = header_html(runs) + warnings_html(runs) + headline_html(runs) +
                           learning_html(runs) + checkpointing_html(runs) + resources_html(runs) +
                           other_charts_html(runs) + samples_html(runs) + tables_html(runs);
  const std::string page = element("head", "", head) +
                           element("body",
                                   "",
                                   element("main", "", body) + element("div", "id=\"tip\"", "") +
                                       element("script", "", page_script()));
  return "<!DOCTYPE html>\n" + element("html", "lang=\"en\"", page) + "\n";
}

void write_report(const std::filesystem::path& path, const std::vector<ReportRun>& runs) {
  write_file(path, report_html(runs));
}

void write_report(const std::filesystem::path& path,
                  const std::vector<Json>& steps,
                  const Json& configuration,
                  const Json& summary) {
  write_report(
      path, {{.name = "run", .steps = steps, .configuration = configuration, .summary = summary}});
}

}  // namespace reprise
