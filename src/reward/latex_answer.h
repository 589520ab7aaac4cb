// Answers in LaTeX, as mathematical data sets have them: \boxed{\frac{1}{2}}.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace reprise::detail {

/// What the last \boxed{...} (or \fbox{...}) holds; nothing if there is none, or it never ends.
std::optional<std::string> boxed_content(std::string_view text);

/// Whether two answers are the same, up to how LaTeX writes them: spaces, $, \left and \right,
/// \dfrac for \frac, \frac{1}{2} for 1/2, degrees and units at the end, a final dot; numbers by
/// their value. No algebra: x+1 is not 1+x.
bool are_same_latex(std::string_view one, std::string_view other);

}  // namespace reprise::detail
