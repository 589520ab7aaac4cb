// A frame is one run of a region: everything that backward needs to recompute it. It is owned by
// the hooks that replace the saved tensors in the region's graph, so it is freed with that graph.
#pragma once

#include "checkpoint/engine.h"
#include "checkpoint/ops/op_recorder.h"
#include "checkpoint/owned_mutex.h"
#include "checkpoint/region.h"
#include "checkpoint/region_listener.h"
#include "checkpoint/slot.h"

#include <reprise/options.h>

#include <ATen/core/Tensor.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::detail {

class Frame final : public std::enable_shared_from_this<Frame> {
 public:
  Frame(const CheckpointOptions& options,
        std::unique_ptr<RegionBody> body,
        const std::vector<at::Tensor>& inputs);
  ~Frame();
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  // Forward.
  /// Null if there is no policy.
  std::unique_ptr<ForwardRecorder> make_recorder();
  Slot& pack(const at::Tensor& tensor);
  /// Called before forward writes `target`.
  void before_write(const at::Tensor& target);
  void before_kernel_write(const at::Tensor& target);
  /// Called before forward gives `target` other data or sizes.
  void before_set(const at::Tensor& target);
  Region& region() { return region_; }
  /// Moves kept results out of the storage of a tensor that is about to be written.
  void preserve(const at::Tensor& written);
  /// Hashes or samples the saved tensors that were not computed yet when they were packed.
  void hash_written();
  void complete_forward();
  /// The region is not to stop early: it resets at its end what it has set.
  void run_to_end() { region_.early_stop_in_scope = false; }
  /// Called if forward failed.
  void abandon() { region_.abandon(); }

  // Backward.
  at::Tensor unpack(const Slot& slot);
  /// Drops the tensors recomputed for a task, and what was fetched from the host.
  void forget(TaskKey task);

  std::string label() const { return region_.label(); }

  /// The listener of the thread that ran forward; null if there was none, or if it is gone.
  ListenerPtr listener() const { return listener_.lock(); }

  /// Whether this thread is recomputing any region.
  static bool is_recomputing_any();

 private:
  friend class RecomputePass;
  class DropCount;

  /// Tensors recomputed for one task, by slot. A tensor is moved out when it is unpacked.
  struct Recomputed {
    TaskKey task;
    std::vector<at::Tensor> tensors;
  };

  /// Whether it is worth stopping a recompute at this slot. An early stop throws an exception,
  /// which is not worth its cost if the region has nothing left to do but return.
  bool stops_early_at(size_t slot) const;
  bool is_saved_with_custom_result(size_t slot) const;
  void check_not_modified(const Slot& slot) const;
  Recomputed& recomputed_for(TaskKey task);
  /// Recomputes all needed slots into `into`, or `only` that one.
  void recompute(Recomputed& into, std::optional<size_t> only);
  /// The inputs that the recompute will not read: see Note [Inputs that no recompute reads].
  void watch_inputs();
  bool will_release(const c10::StorageImpl* input) const;
  /// Tells whether a policy keeps a result in that storage.
  std::function<bool(const c10::StorageImpl*)> is_kept() const;
  /// Throws if autocast's cache would disturb a recompute inside forward.
  void check_autocast() const;
  /// Throws if a second recompute gives other tensors.
  void check_draws(std::vector<at::Tensor>& tensors, std::optional<size_t> only);
  /// Starts to offload what the options and the policy ask for.
  void offload_storages(bool counts);
  /// Name of the node that saved a slot, looked up in the running graph task.
  std::string op_of(const Slot& slot) const;

  Region region_;
  std::unique_ptr<OpRecording> recording_;
  std::shared_ptr<OffloadGroup> offload_group_;  // null if nothing was given away
  const uint64_t forward_thread_;
  const std::weak_ptr<RegionListener> listener_;
  // Without them where the program asked for other values.
  const bool has_samples_;
  bool forward_complete_ = false;
  bool ends_with_last_slot_ = false;
  bool is_recomputing_ = false;
  std::unique_ptr<DropCount> drops_;  // during forward, if statistics are on
  // Slots to hash once their tensors are written; null: none.
  std::unique_ptr<std::vector<std::pair<size_t, at::Tensor>>> unwritten_;

  SlotList slots_;

  // Several device threads of a backward call may unpack from a frame at the same time. Recursive,
  // so that a recompute that needs its own frame is an error and not a deadlock.
  OwnedMutex mutex_;
  std::vector<Recomputed> recomputed_;
};

}  // namespace reprise::detail
