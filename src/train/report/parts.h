// Pieces that pages are made of. Text arguments are not escaped yet; those named `..._html` and
// contents are markup already.
#pragma once

#include <string>

namespace reprise::report {

/// A whole page: head, style, script and the place for the pointer's values.
std::string page_html(const std::string& title, const std::string& body_html);

/// <section> with a heading; "" if `content` is.
std::string section_html(const std::string& heading, const std::string& content);

/// A card with a table of one head row.
std::string table_html(const std::string& head_html, const std::string& body_html);

/// A figure with its label above it and a note below.
std::string tile_html(const std::string& label, const std::string& value, const std::string& note);

/// `share` of the full width, with its value beside it.
std::string bar_html(const std::string& label, const std::string& value, double share, int color);

}  // namespace reprise::report
