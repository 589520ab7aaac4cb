// Prediction targets of a batch, optionally with a summary that the host already knows.
#pragma once

#include <reprise/data/target_summary.h>

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>

namespace reprise {

/// Targets (...) int64: token ids, or kIgnoredLabel to skip a token. On a GPU a pass over the head
/// waits for the device once, because tensor sizes depend on how many targets are not ignored. With
/// `known` it does not wait.
///
/// The caller guarantees that exactly known->count targets are not ignored and that they lie in
/// [known->min, known->max], also when the tensor is overwritten for another pass or for the replay
/// of a captured step. On a CPU a mismatch throws. On a GPU the device checks the count and the
/// vocabulary range asynchronously; a mismatch is a device-side assertion, after which the process
/// cannot use CUDA any more. It fires before other memory is touched.
struct Targets {
  // NOLINTNEXTLINE(google-explicit-constructor): a plain tensor is a valid argument.
  Targets(at::Tensor targets, std::optional<TargetSummary> summary = std::nullopt)
      : tokens(std::move(targets)), known(summary) {}

  at::Tensor tokens;
  std::optional<TargetSummary> known;
};

}  // namespace reprise
