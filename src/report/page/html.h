// Escaping of text, and elements that are always closed.
#pragma once

#include <reprise/export.h>
#include <reprise/io/json.h>

#include <string>
#include <string_view>

namespace reprise::report {

/// For text and attributes: & < > " ' become entities, invalid UTF-8 becomes U+FFFD.
REPRISE_API std::string escaped(std::string_view text);

/// JSON for use inside <script>: no string in it can end the element or open a comment.
REPRISE_API std::string script_json(const Json& json);

/// <name attributes>content</name>. Content and attribute values must be escaped already.
std::string element(std::string_view name, std::string_view attributes, std::string_view content);

/// element() with escaped text, and a class unless that is empty.
std::string text_element(std::string_view name, std::string_view css_class, std::string_view text);

}  // namespace reprise::report
