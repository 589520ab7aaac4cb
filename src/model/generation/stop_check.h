// Tells whether a sequence of new tokens has ended, by a stop token or a stop string.
#pragma once

#include <reprise/model/generate.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

namespace reprise::model {

class StopCheck {
 public:
  /// Keeps a reference to `options`. Throws for stop strings without a decoder and for an empty
  /// one.
  explicit StopCheck(const GenerateOptions& options);

  /// Whether the last of the new tokens `ids` ends the sequence; earlier ones did not.
  bool ends(const std::vector<int64_t>& ids) const;

 private:
  const GenerateOptions& options_;
  std::unordered_set<int64_t> stop_ids_;
  size_t longest_string_ = 0;
};

}  // namespace reprise::model
