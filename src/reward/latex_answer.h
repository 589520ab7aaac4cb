// Compares answers in LaTeX, as in mathematical data sets: \boxed{\frac{1}{2}}.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace reprise::reward {

/// The content of the last \boxed{...} or \fbox{...}; std::nullopt if there is none or it is not
/// closed.
std::optional<std::string> boxed_content(std::string_view text);

/// Whether two answers are equal apart from notation: spaces, $, \left and \right, \dfrac and
/// \frac, \frac{1}{2} and 1/2, degrees and units at the end, a final dot. Numbers are compared by
/// value. There is no algebra: x+1 and 1+x differ.
bool are_same_latex(std::string_view one, std::string_view other);

}  // namespace reprise::reward
