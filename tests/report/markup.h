// A reader of HTML as strict as XML on what matters here: every element is closed in its place.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace reprise::testing {

struct Markup {
  std::string error;                    ///< "" if all elements are closed in their place
  std::vector<std::string> attributes;  ///< the inside of every opening tag: `a href="x"`
  std::string text;                     ///< what is shown, entities as they are written
  std::vector<std::string> scripts;     ///< contents of <script> elements
};

inline Markup parse_markup(const std::string& html) {
  const std::set<std::string> empty_elements = {"meta", "!DOCTYPE"};
  Markup markup;
  std::vector<std::string> open;
  for (size_t at = 0; at < html.size();) {
    if (html[at] != '<') {
      const bool is_style = !open.empty() && open.back() == "style";
      markup.text += is_style ? "" : std::string(1, html[at]);
      ++at;
      continue;
    }
    const size_t end = html.find('>', at);
    if (end == std::string::npos) {
      markup.error = "a tag that does not end: " + html.substr(at, 40);
      return markup;
    }
    const std::string tag = html.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.starts_with("/")) {
      if (open.empty() || open.back() != tag.substr(1)) {
        markup.error =
            "</" + tag.substr(1) + "> closes " + (open.empty() ? "nothing" : open.back());
        return markup;
      }
      open.pop_back();
      continue;
    }
    markup.attributes.push_back(tag);
    const std::string name = tag.substr(0, tag.find(' '));
    if (empty_elements.contains(name)) {
      continue;
    }
    open.push_back(name);
    if (name == "script") {  // ends at the first end tag, whatever is before it
      const size_t close = html.find("</script", at);
      markup.scripts.push_back(html.substr(at, close - at));
      at = close == std::string::npos ? html.size() : close;
    }
  }
  if (!open.empty()) {
    markup.error = "<" + open.back() + "> is not closed";
  }
  return markup;
}

}  // namespace reprise::testing
