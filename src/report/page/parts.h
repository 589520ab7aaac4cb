// Building blocks of pages. Text arguments are escaped here; arguments named `..._html` and
// `content` are markup already.
#pragma once

#include <string>

namespace reprise::report {

/// A whole page: head, style, script and the tooltip element.
std::string page_html(const std::string& title, const std::string& body_html);

/// <section> with a heading; "" if `content` is empty.
std::string section_html(const std::string& heading, const std::string& content);

/// A card with a table that has one head row.
std::string table_html(const std::string& head_html, const std::string& body_html);

/// A figure with a label above and a note below.
std::string tile_html(const std::string& label, const std::string& value, const std::string& note);

/// A bar of `share` of the full width, with its value beside it.
std::string bar_html(const std::string& label, const std::string& value, double share, int color);

}  // namespace reprise::report
