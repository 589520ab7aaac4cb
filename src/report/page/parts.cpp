#include "report/page/parts.h"

#include "report/charts/plot.h"
#include "report/page/assets.h"
#include "report/page/html.h"

#include <algorithm>

namespace reprise::report {

std::string page_html(const std::string& title, const std::string& body_html) {
  const std::string head =
      "<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n" +
      text_element("title", "", title + " – Reprise") + "\n" + element("style", "", page_style()) +
      "\n";
  const std::string script = "\"use strict\";\n(() => {" + std::string(page_script()) +
                             std::string(chart_script()) + std::string(control_script()) +
                             "})();\n";
  const std::string body = element("main", "", body_html) + element("div", "id=\"tip\"", "") +
                           element("script", "", script);
  const std::string page = element("head", "", head) + element("body", "", body);
  return "<!DOCTYPE html>\n" + element("html", "lang=\"en\"", page) + "\n";
}

std::string section_html(const std::string& heading, const std::string& content) {
  return content.empty() ? content
                         : element("section", "", text_element("h2", "", heading) + content) + "\n";
}

std::string table_html(const std::string& head_html, const std::string& body_html) {
  const std::string table =
      element("thead", "", element("tr", "", head_html)) + element("tbody", "", body_html);
  return element("div", "class=\"card table\"", element("table", "", table));
}

std::string tile_html(const std::string& label, const std::string& value, const std::string& note) {
  return element("div",
                 "class=\"tile\"",
                 text_element("span", "label", label) + text_element("strong", "", value) +
                     text_element("small", "", note));
}

std::string bar_html(const std::string& label, const std::string& value, double share, int color) {
  const std::string width = coordinate(100 * std::clamp(share, 0.0, 1.0));
  const std::string fill = element(
      "span", "class=\"fill s" + std::to_string(color) + "\" style=\"width:" + width + "%\"", "");
  return element("div",
                 "class=\"bar\"",
                 text_element("span", "label", label) + element("span", "class=\"track\"", fill) +
                     text_element("b", "", value));
}

}  // namespace reprise::report
