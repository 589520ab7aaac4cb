// What the tokens of a batch are to predict, and what the host knows of it.
#pragma once

#include <reprise/data/target_summary.h>

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>

namespace reprise {

/// Any int64 tensor (...) of token ids and kIgnoredLabel is targets. On a GPU a pass over a head
/// then waits for the device once, because the host decides sizes by how many targets count. With
/// `known` it does not wait.
///
/// The caller guarantees that as many tokens as known->number count and that those lie between
/// least and most, also when the tensor is written again for another pass or a replay of a recorded
/// step. On a CPU a difference throws. On a GPU the device compares their number and the vocabulary
/// while the host goes on; a difference is a device-side assertion, which ends the process' use of
/// CUDA before other memory is touched.
struct Targets {
  // NOLINTNEXTLINE(google-explicit-constructor): callers that know nothing have a tensor.
  Targets(at::Tensor targets, std::optional<TargetSummary> summary = std::nullopt)
      : tokens(std::move(targets)), known(summary) {}

  at::Tensor tokens;
  std::optional<TargetSummary> known;
};

}  // namespace reprise
