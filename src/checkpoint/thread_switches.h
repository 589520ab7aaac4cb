// What holds for the regions of one thread: whether it is recomputing one, and whether an
// EarlyStopGuard decides for those that begin on it.
#pragma once

#include <optional>

namespace reprise::detail {

/// What the innermost EarlyStopGuard of this thread says; empty if there is none.
std::optional<bool> early_stop_in_scope();

/// In its scope, this thread runs the callable of a region again. Regions inside begin under the
/// EarlyStopGuard that was in force in forward.
class RecomputingGuard {
 public:
  explicit RecomputingGuard(std::optional<bool> early_stop_of_forward);
  ~RecomputingGuard();
  RecomputingGuard(const RecomputingGuard&) = delete;
  RecomputingGuard& operator=(const RecomputingGuard&) = delete;

 private:
  std::optional<bool> previous_;
};

}  // namespace reprise::detail
