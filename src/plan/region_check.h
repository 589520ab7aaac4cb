// Compares the regions of a step with those that were planned: what each is called with, what
// autograd saves inside it, and, where a policy observes them, the number of its operators.
//
// A plain region is compared by what it is called with and by how many tensors it saves, because
// looking at each would cost it as much as being a region.
#pragma once

#include "checkpoint/ops/op_observer.h"
#include "checkpoint/region_listener.h"

#include <reprise/region_decision.h>

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace reprise::planning {

/// Listens on the thread that runs the step. One region at a time.
class RegionCheck final : public detail::RegionListener {
 public:
  RegionCheck();
  ~RegionCheck();

  enum class Runs : uint8_t { Plainly, AsRegion };
  /// Joined regions get only the result of the one before as an argument; the rest is captured.
  enum class Arguments : uint8_t { All, First };
  /// A region begins. Throws if it is not called as `planned`, which must live until it has ended.
  void begin(const RegionDecision& planned,
             Runs runs,
             const std::vector<at::Tensor>& inputs,
             Arguments which = Arguments::All);
  /// Its forward has returned. Throws if it did not do what was planned.
  void end(size_t saves);

 private:
  class OpCounter;

  detail::OpObserver* forward_begins(const std::shared_ptr<detail::Frame>& frame,
                                     const CheckpointOptions& options,
                                     const std::vector<at::Tensor>& inputs,
                                     detail::OpObserver* recorder) override;
  void packed(const detail::Frame& frame, const at::Tensor& tensor) override;
  void forward_ended(const detail::Frame& frame) override;
  void recompute_begins(const detail::Frame&) override {}
  detail::OpObserver* recompute_runs(const detail::Frame&, detail::OpObserver* replayer) override {
    return replayer;
  }
  void recompute_ended(const detail::Frame&) override {}

  [[noreturn]] void refuse(const std::string& planned, const std::string& came) const;

  const RegionDecision* planned_ = nullptr;  // null: there is nothing to compare
  bool awaits_frame_ = false;                // the next region to begin is the planned one
  const detail::Frame* frame_ = nullptr;     // while its forward runs as a region
  size_t saved_ = 0;
  std::string planned_tensor_, came_tensor_;  // the first saved tensor that differs
  std::unique_ptr<OpCounter> ops_;            // null: operators are not observed
};

}  // namespace reprise::planning
