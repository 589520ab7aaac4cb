// What a region with a policy keeps: the results of operator calls, by operator and call.
#pragma once

#include "checkpoint/compressed.h"
#include "checkpoint/offload_outgoing.h"
#include "checkpoint/rng_state.h"

#include <reprise/policy.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>
#include <c10/util/flat_hash_map.h>

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::detail {

/// Results of one operator call, sharing storage with what the program got, until they are moved or
/// compressed.
class KeptResult {
 public:
  /// Takes the results from the top of the stack.
  KeptResult(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

  /// Whether nobody changed them in place since.
  bool is_intact() const;
  /// Puts new tensors with the kept content onto the stack; what was moved comes out of `parcel`.
  void push_to(torch::jit::Stack& stack, Parcel* parcel) const;

  bool shares(const c10::Storage& storage) const;
  /// Lets go of `from` for `copy`, which has the same content.
  void move_to(const c10::Storage& from, const c10::Storage& copy);

  /// Lets go of storages that are items of a parcel now.
  void move_to(const Outgoing& outgoing);
  /// Lets go of tensors that have a smaller form, other than small ones. Returns their bytes.
  size_t compress(bool allow_lossy);
  /// Whether any of them has such a form.
  bool is_compressible(bool allow_lossy) const;

  /// Calls `visit(storage)` for each tensor's storage that can be moved.
  template <class Visit>
  void for_each_movable(const Visit& visit) const {
    for (const auto& tensor : tensors_) {
      if (is_movable(tensor)) {
        visit(tensor.alias.storage());
      }
    }
  }

  /// On the device.
  size_t bytes() const;
  /// Of these, in smaller forms.
  size_t compressed_bytes() const;
  bool has_tensors() const { return !tensors_.empty(); }
  /// Where the results are; the CPU if they are no tensors.
  c10::Device device() const;

  /// What a random operator left its generator at.
  std::optional<GeneratorState> generator;
  /// Decision::Offload: to be moved when forward ends. The stream that it was made on.
  std::optional<c10::Stream> goes_out;

 private:
  struct Tensor {
    at::Tensor alias;  // detached; shares the original's version counter, or is hollow
    uint32_t version;
    std::optional<size_t> item = {};            // of the parcel that has its bytes
    std::optional<Compressed> compressed = {};  // its bytes
  };
  static bool is_movable(const Tensor& tensor);
  void empty(Tensor& tensor);
  /// The values hold the same aliases in the same order.
  void refresh_values();

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

  /// End of forward: offers what the policy wants to have moved, as far as nobody else holds it.
  void offer(Outgoing& outgoing) const;
  /// What was offered and taken is in `parcel` now.
  void move_to(const Outgoing& outgoing, std::shared_ptr<Parcel> parcel);

  size_t kept_bytes() const;
  size_t compressed_bytes() const;
  /// What those bytes were before.
  size_t bytes_before_compression() const { return bytes_before_compression_; }
  /// What the policy wants to have compressed and stays as it is.
  size_t bytes_not_compressed() const { return bytes_not_compressed_; }
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
  std::shared_ptr<Parcel> parcel_;  // null if nothing was moved
  size_t bytes_before_compression_ = 0;
  size_t bytes_not_compressed_ = 0;

  template <class Visit>
  void for_each_result(const Visit& visit) const {
    for (const auto& [id, calls] : calls_) {
      for (const auto& result : calls.results) {
        if (result != nullptr) {
          visit(*result);
        }
      }
    }
  }
};

}  // namespace reprise::detail
