// The style sheet and script that are embedded in the page.
#pragma once

#include <string_view>

namespace reprise::report {

std::string_view page_style();
/// What the script of the charts uses: units, axes, shapes, the tooltip.
std::string_view page_script();
/// Draws the charts.
std::string_view chart_script();
/// Handles pointers and controls.
std::string_view control_script();

}  // namespace reprise::report
