// When a region is recomputed, and what surrounds that: RecomputePass does it.
#include "checkpoint/frame.h"
#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/recompute_pass.h"
#include "checkpoint/region_listener.h"
#include "checkpoint/state/unseen_draws.h"
#include "checkpoint/state/value_hash.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/equal.h>

#include <algorithm>
#include <utility>

namespace reprise::detail {
namespace {

thread_local int recompute_depth = 0;  // nested recomputes on this thread

/// In its scope, the offloaded storages of the region being recomputed are on the device, and those
/// of the regions before it are being fetched.
class FetchScope {
 public:
  explicit FetchScope(OffloadGroup* group) : offload_group_(group) { ++recompute_depth; }
  ~FetchScope() {
    --recompute_depth;
    if (offload_group_ != nullptr) {
      try {
        offload_group_->release();
      } catch (...) {
        // Another exception is being thrown already and tells why the device failed.
      }
    }
  }
  FetchScope(const FetchScope&) = delete;
  FetchScope& operator=(const FetchScope&) = delete;

  void begin(TaskKey task) {
    if (offload_group_ == nullptr) {
      return;
    }
    offload_group_->start_fetch();
    if (task == 0) {
      return;  // there is no backward call that would need the others
    }
    for (const auto& previous : groups_to_prefetch(*offload_group_)) {
      // Released even if this backward call ends before it reaches that region.
      release_at_task_end(task, previous->owner);
      previous->start_fetch();
    }
  }

 private:
  OffloadGroup* offload_group_;
};

}  // namespace

bool Frame::is_recomputing_any() {
  return recompute_depth > 0;
}

/// See Note [Draws without an operator]. Replaces `tensors` by those of a second recompute, so that
/// not both are alive at once.
void Frame::check_draws(std::vector<at::Tensor>& tensors, std::optional<size_t> only) {
  const auto hash_of = [](const at::Tensor& tensor) {
    // Not bytes: see Note [Workspaces are not compared].
    const bool is_comparable =
        tensor.defined() && tensor.layout() == c10::kStrided && tensor.scalar_type() != at::kByte;
    return is_comparable ? value_hash(tensor) : at::Tensor();
  };
  std::vector<at::Tensor> hashes(slots_.size());
  std::transform(tensors.begin(), tensors.end(), hashes.begin(), hash_of);
  if (!only) {
    tensors.assign(slots_.size(), at::Tensor());
  }
  RecomputePass(*this, tensors, only).run(/*notice=*/nullptr);
  const EngineOpsGuard guard;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto again = hash_of(tensors[i]);
    if (again.defined() && hashes[i].defined() && !at::equal(again, hashes[i])) {
      throw CheckpointError(c10::str(
          "[reprise] ",
          label(),
          " draws random numbers from a default generator without an operator of LibTorch, "
          "so that its recompute draws others. List the generator in "
          "CheckpointOptions::generators, or draw with an operator."));
    }
  }
  count_unfounded_suspicion(region_.callable);
}

/// Autocast caches the casts of parameters until its scope ends. A recompute inside the same scope
/// finds them and does fewer casts than forward did, so that kept results could be mistaken.
void Frame::check_autocast() const {
  const bool is_on = at::autocast::is_autocast_enabled(c10::DeviceType::CPU) ||
                     at::autocast::is_autocast_enabled(c10::DeviceType::CUDA);
  if (is_on && !region_.thread_state.has_autocast()) {
    throw CheckpointError(
        c10::str("[reprise] ",
                 label(),
                 " has a policy and calls backward in an autocast scope that it has opened itself. "
                 "Open the scope around the region, or call backward outside of it."));
  }
}

void Frame::recompute(Recomputed& into, std::optional<size_t> only) {
  const TaskKey task = into.task;
  region_.check_not_abandoned();
  region_.check_globals();
  std::vector<at::Tensor> tensors = std::move(into.tensors);
  tensors.resize(slots_.size());
  struct Flag {
    explicit Flag(bool& flag) : value(flag) { value = true; }
    ~Flag() { value = false; }
    Flag(const Flag&) = delete;
    Flag& operator=(const Flag&) = delete;
    bool& value;
  };
  try {
    const Flag recomputing(is_recomputing_);
    FetchScope fetching(offload_group_.get());
    fetching.begin(task);
    const RecomputeNotice notice(*this, listener_);  // around everything that is copied
    if (!forward_complete_ && recording_) {
      check_autocast();
      // Kept results belong to the region. The end of forward would forget them.
      region_.forget_kept(is_kept());
    }
    RecomputePass pass(*this, tensors, only);
    region_.check_inputs();
    pass.run(&notice);
    // On the CPU samples of the values tell.
    const auto is_compared = [](const Slot& slot) {
      return slot.sample != 0 || slot.is_parameter || slot.hash.defined();
    };
    if (pass.is_suspect() && !slots_.all(is_compared) && !is_beyond_suspicion(region_.callable)) {
      check_draws(tensors, only);
    }
  } catch (const UnrepeatableError&) {
    forget(task);
    region_.abandon();
    throw;
  } catch (...) {
    forget(task);
    rethrow_naming(region_);
  }
  into.tensors = std::move(tensors);
}

}  // namespace reprise::detail
