// All text from outside (names of models and files, warnings, completions) passes through this
// file.
#include "report/page/html.h"

#include "text/unicode/utf8.h"

namespace reprise::report {

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text::replace_invalid_utf8(text)) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string script_json(const Json& json) {
  std::string safe;
  for (const char c : json.dump(-1, ' ', true, Json::error_handler_t::replace)) {
    switch (c) {
      case '<':
        safe += "\\u003c";
        break;
      case '>':
        safe += "\\u003e";
        break;
      case '&':
        safe += "\\u0026";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string element(std::string_view name, std::string_view attributes, std::string_view content) {
  std::string text = "<" + std::string(name);
  if (!attributes.empty()) {
    text += " " + std::string(attributes);
  }
  text += ">" + std::string(content) + "</" + std::string(name) + ">";
  return text;
}

std::string text_element(std::string_view name, std::string_view css_class, std::string_view text) {
  const std::string attribute =
      css_class.empty() ? std::string() : "class=\"" + std::string(css_class) + "\"";
  return element(name, attribute, escaped(text));
}

}  // namespace reprise::report
