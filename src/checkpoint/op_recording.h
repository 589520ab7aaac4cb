// What a region with a policy keeps: the results of operator calls, by operator and call.
#pragma once

#include "checkpoint/rng_state.h"

#include <reprise/policy.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/Storage.h>
#include <c10/util/flat_hash_map.h>

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::detail {

/// Results of one operator call, sharing storage with what the program got.
class KeptResult {
 public:
  /// Takes the results from the top of the stack.
  KeptResult(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

  /// Whether nobody changed them in place since.
  bool is_intact() const;
  /// Puts new tensors with the kept content onto the stack.
  void push_to(torch::jit::Stack& stack) const;

  bool shares(const c10::Storage& storage) const;
  /// Lets go of `from` for `copy`, which has the same content.
  void move_to(const c10::Storage& from, const c10::Storage& copy);

  size_t bytes() const;
  /// Where the results are; the CPU if they are no tensors.
  c10::Device device() const;

  /// What a random operator left its generator at.
  std::optional<GeneratorState> generator;

 private:
  struct Tensor {
    at::Tensor alias;  // detached; shares the original's version counter
    uint32_t version;
  };
  std::vector<c10::IValue> values_;  // with tensors in place, as aliases
  std::vector<Tensor> tensors_;
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

}  // namespace reprise::detail
