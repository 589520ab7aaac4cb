// The style sheet and script that are embedded in the page.
#pragma once

#include <string_view>

namespace reprise::report {

std::string_view page_style();
std::string_view page_script();

}  // namespace reprise::report
