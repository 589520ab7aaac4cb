// The page's style and script, which stand inside it.
#pragma once

#include <string_view>

namespace reprise::report {

std::string_view page_style();
std::string_view page_script();

}  // namespace reprise::report
