// What a user may have meant by a name that does not exist.
#pragma once

#include <string>
#include <vector>

namespace reprise::app {

/// The candidate with the fewest letters added, dropped or replaced; empty if none is near.
std::string nearest(const std::string& name, const std::vector<std::string>& candidates);

/// "; did you mean NAME?", or nothing for an empty name.
std::string did_you_mean(const std::string& name);

}  // namespace reprise::app
