// A frame is one run of a region: what its backward needs in order to run it again. The frame is
// owned by the hooks that stand in for the saved tensors of the region's graph, so it dies with
// that graph.
#pragma once

#include "checkpoint/engine.h"
#include "checkpoint/op_recorder.h"
#include "checkpoint/region.h"

#include <reprise/options.h>

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/SmallVector.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::detail {

/// The tensor's sizes as far as one list tells them: none for nested tensors.
inline c10::IntArrayRef comparable_sizes(const at::Tensor& tensor) {
  return tensor.is_nested() ? c10::IntArrayRef() : tensor.sizes();
}

/// What autograd saved in forward, as far as we remember it without holding it.
struct Slot {
  explicit Slot(const at::Tensor& tensor, DeterminismCheck check);

  /// The saved tensor's own counter: plain autograd would refuse to use the tensor once this has
  /// moved.
  c10::VariableVersion version_counter;
  uint32_t version;
  c10::SmallVector<int64_t, 5> sizes;
  c10::ScalarType dtype;
  c10::Device device;
  /// The node that saves it, in the numbering of the thread that ran forward.
  uint64_t sequence_number;
  /// Saved by the node that computed it, so it is there already when it is saved.
  bool is_result;
  /// Saved by the custom function that computed it: see Note [Custom functions save undisturbed].
  bool is_custom_result;
  /// Content hash under DeterminismCheck::Values, on the tensor's device.
  at::Tensor hash;
  /// False once autograd has let go of the slot.
  std::atomic<bool> is_needed{true};
};

class Frame final : public std::enable_shared_from_this<Frame> {
 public:
  Frame(const CheckpointOptions& options,
        std::unique_ptr<RegionBody> body,
        const std::vector<at::Tensor>& inputs);
  ~Frame();
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  // Forward.
  /// Null without a policy.
  std::unique_ptr<ForwardRecorder> make_recorder();
  size_t pack(const at::Tensor& tensor);
  /// `target` is about to be written by forward.
  void before_write(const at::Tensor& target);
  /// Hashes saved tensors that were not computed yet when they were packed.
  void hash_written();
  void complete_forward();
  /// Forward failed.
  void abandon() { region_.abandon(); }

  // Backward.
  at::Tensor unpack(size_t slot);
  void release(size_t slot) { slots_[slot].is_needed.store(false, std::memory_order_relaxed); }
  /// Drops what was recomputed for a task, and what came back from the host ahead of a recompute.
  void forget(TaskKey task);

  std::string label() const { return region_.label(); }

  /// Whether this thread is recomputing a region.
  static bool is_recomputing_any();

 private:
  friend class RecomputePass;
  class DropCount;

  /// Tensors recomputed for one task, by slot. A tensor leaves when it is unpacked.
  struct Recomputed {
    TaskKey task;
    std::vector<at::Tensor> tensors;
  };

  /// Whether work would be saved by stopping a recompute at this slot. An exception costs more than
  /// nothing: it is not thrown where the region has nothing left to do but to return.
  bool stops_early_at(size_t slot) const;
  bool is_saved_with_custom_result(size_t slot) const;
  void check_not_modified(size_t slot) const;
  Recomputed& recomputed_for(TaskKey task);
  /// Fills `into` with every needed slot, or with `only` that one.
  void recompute(Recomputed& into, std::optional<size_t> only);
  /// Moves to the host what the options and the policy give away. Counts it.
  void send_parcel(bool counts);
  /// Name of the node that saved a slot, found in the running graph task.
  std::string op_of(const Slot& slot) const;

  Region region_;
  std::unique_ptr<OpRecording> recording_;
  std::shared_ptr<Parcel> parcel_;  // null if nothing was given away
  const uint64_t forward_thread_;
  bool forward_complete_ = false;
  bool ends_with_last_slot_ = false;
  std::unique_ptr<DropCount> drops_;  // while forward runs and statistics are on
  std::vector<std::pair<size_t, at::Tensor>> unwritten_;

  // A deque, because slots are neither copied nor moved while hooks on other threads release them.
  std::deque<Slot> slots_;

  // Device threads of one backward call may unpack from one frame at the same time. Recursive, so
  // that a recompute that comes back to its own frame is a message and not a deadlock.
  std::recursive_mutex mutex_;
  bool is_recomputing_ = false;
  std::vector<Recomputed> recomputed_;
};

}  // namespace reprise::detail
