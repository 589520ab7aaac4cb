// Assembles the page.
#include "report/page/parts.h"
#include "report/page/sections.h"

#include <reprise/io/file.h>
#include <reprise/report/report.h>

#include <c10/util/Exception.h>

namespace reprise {

std::string report_html(const std::vector<ReportRun>& runs) {
  using namespace report;
  TORCH_CHECK(!runs.empty(), "[report] expected at least one run, found none");
  const std::string body = header_html(runs) + warnings_html(runs) + headline_html(runs) +
                           learning_html(runs) + checkpointing_html(runs) + resources_html(runs) +
                           other_charts_html(runs) + constants_html(runs) + samples_html(runs) +
                           tables_html(runs);
  return page_html(title_of(runs), body);
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
