// What the rest of the program relies on in an example.
#pragma once

#include <reprise/data/example.h>

#include <cstdlib>

namespace reprise::testing {

/// Aborts unless the parts of every sequence fit together.
inline void check_example(const Example& example) {
  for (const auto& sequence : example.sequences) {
    const size_t tokens = sequence.ids.size();
    const bool is_consistent =
        sequence.labels.size() == tokens &&
        (sequence.soft_labels.empty() || sequence.soft_labels.size() == tokens) &&
        sequence.prompt >= 0 && static_cast<size_t>(sequence.prompt) <= tokens;
    if (!is_consistent) {
      std::abort();
    }
  }
}

}  // namespace reprise::testing
