// What the host knows of labels without asking the device that they lie on: counted while batches
// are put together, so that a step need not wait for a GPU to learn the sizes of its tensors.
#pragma once

#include <reprise/data/example.h>

#include <algorithm>
#include <cstdint>
#include <span>

namespace reprise {

struct TargetSummary {
  int64_t number = 0;           ///< that are not kIgnoredLabel
  int64_t least = 0, most = 0;  ///< of those; 0 if there are none

  void add(std::span<const int64_t> labels) {
    for (const int64_t label : labels) {
      if (label != kIgnoredLabel) {
        least = number == 0 ? label : std::min(least, label);
        most = number == 0 ? label : std::max(most, label);
        ++number;
      }
    }
  }

  bool operator==(const TargetSummary&) const = default;
};

}  // namespace reprise
