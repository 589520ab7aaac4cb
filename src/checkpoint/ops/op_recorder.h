// Selective checkpointing: the results that a policy keeps are recorded in forward and replayed in
// the recompute.
//
// Note [Numbering of operator calls]
// A call in the recompute is matched with the one in forward by the operator and its call count in
// the region, not by one count over all operators, so that a call that happens in only one of the
// two does not shift the rest. Autocast's casts of parameters are such calls, because the cache may
// already hold them; they are never recorded.
#pragma once

#include "checkpoint/ops/looking_policy.h"
#include "checkpoint/ops/op_info.h"
#include "checkpoint/ops/op_observer.h"
#include "checkpoint/ops/op_recording.h"
#include "checkpoint/region.h"

#include <reprise/options.h>

#include <c10/util/flat_hash_map.h>

#include <array>
#include <memory>
#include <vector>

namespace reprise::detail {

/// Forward: asks the policy and keeps results accordingly.
class ForwardRecorder final : public OpObserver {
 public:
  /// `region` must outlive the recorder. `is_recomputed`: this forward is part of the recompute of
  /// an enclosing region.
  ForwardRecorder(OpRecording& recording, const Region& region, bool is_recomputed)
      : recording_(recording),
        region_(region),
        has_autocast_(region.thread_state.has_autocast()),
        options_(region.options),
        only_looks_(dynamic_cast<const LookingPolicy*>(region.options.policy.get()) != nullptr),
        is_recomputed_(is_recomputed) {}
  void call(const c10::OperatorHandle& op,
            c10::DispatchKeySet below,
            torch::jit::Stack* stack) override;

 private:
  Decision decide(const OpContext& op) const;
  void run(const c10::OperatorHandle& op,
           const OpInfo& info,
           c10::DispatchKeySet below,
           torch::jit::Stack* stack) const;
  size_t draws() const { return region_.draws ? region_.draws->size() : 0; }
  /// Marks the result to be offloaded when forward ends.
  void offload(const c10::OperatorHandle& op, KeptResult& kept) const;
  void compress(const c10::OperatorHandle& op, KeptResult& kept) const;

  OpRecording& recording_;
  const Region& region_;
  const bool has_autocast_;
  const CheckpointOptions& options_;
  const bool only_looks_;  // the policy: see LookingPolicy
  const bool is_recomputed_;
  std::array<size_t, 3> class_calls_{};
};

/// Recompute: returns kept results and runs all other operators.
class Replayer final : public OpObserver {
 public:
  /// `draws`: null if random state is not preserved.
  Replayer(const OpRecording& recording, const Region& region, DrawReplay* draws, OnceReplay& once)
      : recording_(recording),
        region_(region),
        draws_(draws),
        once_(once),
        has_autocast_(region.thread_state.has_autocast()) {}
  void call(const c10::OperatorHandle& op,
            c10::DispatchKeySet below,
            torch::jit::Stack* stack) override;

  size_t replayed() const { return replayed_; }
  size_t recomputed() const { return recomputed_; }

 private:
  const OpRecording& recording_;
  const Region& region_;
  DrawReplay* draws_;
  OnceReplay& once_;
  const bool has_autocast_;
  struct Calls {
    const std::vector<std::unique_ptr<KeptResult>>* forward;  // null if it had none
    size_t count = 0;
  };
  ska::flat_hash_map<const void*, Calls> calls_;
  size_t replayed_ = 0;
  size_t recomputed_ = 0;
};

}  // namespace reprise::detail
