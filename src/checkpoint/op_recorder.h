// Selective checkpointing: results that a policy keeps are recorded in forward and replayed in
// recompute.
//
// Note [Numbering of operator calls]
// Forward and recompute are matched by operator and by how often it has been called in the region,
// not by one running count: what runs in only one of them must not shift the rest. Autocast's casts
// of parameters are such a thing, since its cache may already hold them; they are never recorded.
#pragma once

#include "checkpoint/op_info.h"
#include "checkpoint/region.h"
#include "checkpoint/rng_state.h"

#include <reprise/options.h>
#include <reprise/policy.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/flat_hash_map.h>

#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace reprise::detail {

/// Results of one operator call, sharing storage with what the program got.
struct KeptResult {
  KeptResult(const c10::OperatorHandle& op, const torch::jit::Stack& results);

  struct Tensor {
    at::Tensor alias;  // detached; shares the original's version counter
    uint32_t version;
  };
  std::vector<c10::IValue> values;  // with tensors in place, as aliases
  std::vector<Tensor> tensors;
  /// What a random operator left its generator at.
  std::optional<GeneratorState> generator;

  size_t bytes() const;
  bool shares(const c10::Storage& storage) const;
  /// Lets go of `from` for `copy`, which has the same content.
  void move_to(const c10::Storage& from, const c10::Storage& copy);
};

/// What forward decided and kept. It can be replayed any number of times.
///
/// Note [Kept results are copied on write]
/// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
/// A kept result shares its storage with the tensor that the program goes on working with. An
/// in-place operator inside the region is legal for the program (torch::nn::Linear adds its bias in
/// place to the result of a matrix product) and would change what we keep. So before a write inside
/// the region, kept results in the written storage move to a copy: see preserve(). A write after
/// the region has ended is noticed by the version counter and is an error.
class OpRecording {
 public:
  explicit OpRecording(std::shared_ptr<const Policy> policy) : policy_(std::move(policy)) {}

  /// `target` is about to be written: kept results move out of its storage.
  void preserve(const at::Tensor& target);

  /// End of forward: lets the policy check that it had an effect.
  void verify() const;
  size_t kept_bytes() const;
  const Policy& policy() const { return *policy_; }

 private:
  friend class ForwardRecorder;
  friend class Replayer;

  struct Calls {
    std::string_view name;  // the schema's, which outlives us
    std::string_view overload;
    OpClass op_class;
    std::vector<std::unique_ptr<KeptResult>> results;  // null where recomputed
    size_t keep_decisions = 0;
  };
  std::shared_ptr<const Policy> policy_;
  ska::flat_hash_map<const void*, Calls> calls_;
};

/// Sees every operator call on this thread, below autograd, while its guard lives.
class OpObserver {
 public:
  virtual void call(const c10::OperatorHandle& op,
                    c10::DispatchKeySet below,
                    torch::jit::Stack* stack) = 0;

 protected:
  ~OpObserver() = default;
};

/// `observer` alone observes; null: nobody does, not even one of an enclosing region.
class OpObserverGuard {
 public:
  explicit OpObserverGuard(OpObserver* observer);
  ~OpObserverGuard();
  OpObserverGuard(const OpObserverGuard&) = delete;
  OpObserverGuard& operator=(const OpObserverGuard&) = delete;

 private:
  OpObserver* previous_;
  c10::impl::ForceDispatchKeyGuard keys_;
};

/// Forward: asks the policy, keeps what it says.
class ForwardRecorder final : public OpObserver {
 public:
  /// `options` outlive the recorder.
  ForwardRecorder(OpRecording& recording, bool has_autocast, const CheckpointOptions& options)
      : recording_(recording), has_autocast_(has_autocast), options_(options) {}
  void call(const c10::OperatorHandle& op,
            c10::DispatchKeySet below,
            torch::jit::Stack* stack) override;

 private:
  static void run(const c10::OperatorHandle& op,
                  const OpInfo& info,
                  c10::DispatchKeySet below,
                  torch::jit::Stack* stack);
  void keep_generator(KeptResult& kept, c10::ArrayRef<c10::IValue> arguments) const;

  OpRecording& recording_;
  const bool has_autocast_;
  const CheckpointOptions& options_;
  std::array<size_t, 3> class_calls_{};
};

/// Recompute: gives back what was kept, runs the rest.
class Replayer final : public OpObserver {
 public:
  Replayer(const OpRecording& recording, const Region& region)
      : recording_(recording), region_(region), has_autocast_(region.thread_state.has_autocast()) {}
  void call(const c10::OperatorHandle& op,
            c10::DispatchKeySet below,
            torch::jit::Stack* stack) override;

  size_t replayed() const { return replayed_; }
  size_t recomputed() const { return recomputed_; }

 private:
  const OpRecording& recording_;
  const Region& region_;
  const bool has_autocast_;
  ska::flat_hash_map<const void*, size_t> calls_;
  size_t replayed_ = 0;
  size_t recomputed_ = 0;
};

}  // namespace reprise::detail
