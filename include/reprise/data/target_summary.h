// How many labels of a batch count, and their range, counted on the host while the batch is built.
// A training step then knows the sizes of its tensors without waiting for the GPU.
#pragma once

#include <reprise/data/example.h>

#include <algorithm>
#include <cstdint>
#include <span>

namespace reprise {

struct TargetSummary {
  int64_t count = 0;         ///< labels other than kIgnoredLabel
  int64_t min = 0, max = 0;  ///< over those labels; 0 if there are none

  void add(std::span<const int64_t> labels) {
    for (const int64_t label : labels) {
      if (label != kIgnoredLabel) {
        min = count == 0 ? label : std::min(min, label);
        max = count == 0 ? label : std::max(max, label);
        ++count;
      }
    }
  }

  bool operator==(const TargetSummary&) const = default;
};

}  // namespace reprise
