// Whether a sequence of new tokens has come to a stop: by a token, or by a string in its text.
#pragma once

#include <reprise/model/generate.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

namespace reprise::detail {

class StopCheck {
 public:
  /// Keeps a reference to `options`. Throws for stop strings without a decoder, or an empty one.
  explicit StopCheck(const GenerateOptions& options);

  /// `ids` are the new tokens so far, and did not end before the last of them.
  bool ends(const std::vector<int64_t>& ids) const;

 private:
  const GenerateOptions& options_;
  std::unordered_set<int64_t> stop_ids_;
  size_t longest_string_ = 0;
};

}  // namespace reprise::detail
