// The state of several random number generators, to be restored later.
#pragma once

#include "checkpoint/state/generator_state.h"

#include <optional>
#include <vector>

namespace reprise::detail {

class RngState {
 public:
  explicit RngState(const std::vector<at::Generator>& generators);
  /// The default generators of the CPU and of every CUDA device.
  static RngState of_defaults();

  void restore() const;
  bool is_empty() const { return states_.empty(); }
  /// The current state of the same generators.
  RngState now() const;

 private:
  std::vector<GeneratorState> states_;
};

/// Restores `state` for its scope, and the caller's state at the end.
class RngGuard {
 public:
  explicit RngGuard(const RngState& state);
  ~RngGuard();
  RngGuard(const RngGuard&) = delete;
  RngGuard& operator=(const RngGuard&) = delete;

 private:
  std::optional<RngState> callers_;
};

}  // namespace reprise::detail
