#pragma once

#include <limits>

namespace reprise::testing {

/// Becomes that of double where one is asked for.
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

}  // namespace reprise::testing
