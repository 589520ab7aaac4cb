// The operators of a traced region by name.
#pragma once

#include "plan/trace/step_trace.h"

#include <string>
#include <vector>

namespace reprise::testing {

inline std::vector<std::string> names_of(const planning::TracedRegion& region) {
  std::vector<std::string> names;
  for (const auto& op : region.ops) {
    names.push_back(op.overload.empty() ? op.name : op.name + "." + op.overload);
  }
  return names;
}

}  // namespace reprise::testing
