// Text in HTML, and elements that are closed as surely as they are opened.
#pragma once

#include <reprise/export.h>
#include <reprise/io/json.h>

#include <string>
#include <string_view>

namespace reprise::report {

/// For text and attributes: & < > " ' as entities; bytes that are not UTF-8 as U+FFFD.
REPRISE_API std::string escaped(std::string_view text);

/// JSON that stands inside <script>: no string in it can end the element or open a comment.
REPRISE_API std::string script_json(const Json& json);

/// <name attributes>content</name>. The caller has escaped the content and attribute values.
std::string element(std::string_view name, std::string_view attributes, std::string_view content);

/// element() of text, with the class or none.
std::string text_element(std::string_view name, std::string_view css_class, std::string_view text);

}  // namespace reprise::report
