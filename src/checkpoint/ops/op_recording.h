// The operator results that a region with a policy keeps, by operator and call.
#pragma once

#include "checkpoint/offload/candidates.h"
#include "checkpoint/offload/compressed.h"

#include <reprise/policy.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>
#include <c10/util/flat_hash_map.h>

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::detail {

/// The kept results of one operator call. They share storage with the program's tensors until they
/// are offloaded or compressed.
class KeptResult {
 public:
  /// Takes the results from the top of the stack.
  KeptResult(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

  /// Whether they have not been modified in place since.
  bool is_intact() const;
  /// Pushes new tensors with the kept content onto the stack. Offloaded ones are taken from
  /// `group`.
  void push_to(torch::jit::Stack& stack, OffloadGroup* group) const;

  bool shares(const c10::Storage& storage) const;
  /// How many of the tensors are in that storage.
  size_t count_in(const c10::Storage& storage) const;
  /// The version counter of the tensor in that storage; null if there is none.
  const c10::VariableVersion* version_in(const c10::StorageImpl* storage) const;
  /// Replaces the storage `from` by `copy`, which has the same content.
  void move_to(const c10::Storage& from, const c10::Storage& copy);

  /// Leaves the storage `written`, if it is in there, for `copy`, which is made if there is none.
  void move_out_of(const c10::Storage& written, std::optional<c10::Storage>& copy);

  /// Releases the storages that were accepted for offloading.
  void move_to(const OffloadCandidates& candidates);
  /// Compresses the tensors that can be, except for small ones. Returns their original bytes.
  size_t compress(bool allow_lossy);
  /// Whether any of them can be compressed.
  bool is_compressible(bool allow_lossy) const;
  /// Whether compressing them with allow_lossy changes values, if they are large enough.
  bool has_lossy_form() const;

  /// Calls `visit(storage)` for the storage of each tensor that can be offloaded.
  template <class Visit>
  void for_each_movable(const Visit& visit) const {
    for (const auto& tensor : tensors_) {
      if (is_movable(tensor)) {
        visit(tensor.alias.storage());
      }
    }
  }

  /// Calls `visit(storage)` for the storage of each tensor that is not compressed.
  template <class Visit>
  void for_each_storage(const Visit& visit) const {
    for (const auto& tensor : tensors_) {
      if (!tensor.compressed && tensor.alias.has_storage()) {
        visit(tensor.alias.storage());
      }
    }
  }

  /// Bytes on the device.
  size_t bytes() const;
  /// The compressed ones among these.
  size_t compressed_bytes() const;
  bool has_tensors() const { return !tensors_.empty(); }
  /// The device of the results; the CPU if none is a tensor.
  c10::Device device() const;

  /// Random numbers were drawn so many times below the operator, which a replay leaves out.
  size_t draws = 0;
  /// So many effectful operators ran below the operator.
  size_t once_calls = 0;
  /// Set if the result is to be offloaded when forward ends: the stream that it was computed on.
  std::optional<c10::Stream> offload_stream;

 private:
  struct Tensor {
    at::Tensor alias;  // detached, with the original's version counter; or a placeholder
    uint32_t version;
    std::optional<size_t> item = {};            // in the offload group, if offloaded
    std::optional<Compressed> compressed = {};  // if compressed
  };
  static bool is_movable(const Tensor& tensor);
  void release_storage(Tensor& tensor);
  /// Updates the aliases in values_ from tensors_.
  void refresh_values();

  std::vector<c10::IValue> values_;  // the results, with aliases for the tensors
  std::vector<Tensor> tensors_;
};

/// What forward decided and kept. It can be replayed any number of times.
///
/// Note [Kept results are copied on write]
/// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
/// A kept result shares its storage with the tensor that the program continues to use. An in-place
/// operator inside the region is legal (torch::nn::Linear adds its bias in place to the result of a
/// matrix product) but would change what was kept. So before a write inside the region, kept
/// results in the written storage are moved to a copy: see preserve(). A write after the end of the
/// region is detected by the version counter and is an error.
class OpRecording {
 public:
  explicit OpRecording(std::shared_ptr<const Policy> policy) : policy_(std::move(policy)) {}

  /// Call before the storage is written: moves kept results out of it.
  void preserve(const c10::Storage& written);

  /// Whether a kept result is in this storage.
  bool holds(const c10::StorageImpl* storage) const;

  /// Call after an operator has run. Results that share the storage of a kept one, without being a
  /// view of it, have a version counter of their own: a later write through them would not be
  /// noticed. The result of _unsafe_view gets the counter of the kept one. Others (unsafe_split, a
  /// custom operator that returns its argument) must stay independent: see detach_hidden().
  void note_aliases(const c10::OperatorHandle& op, const torch::jit::Stack& stack, bool ties);
  /// End of forward: kept results that the program may write unnoticed are moved to a copy.
  void detach_hidden();

  /// End of forward: lets the policy check that it had an effect.
  void verify() const;

  /// End of forward: adds the results to offload, except for storages that the program still holds.
  void add_candidates(OffloadCandidates& candidates) const;
  /// Releases the accepted candidates, which are in `group` now.
  void move_to(const OffloadCandidates& candidates, std::shared_ptr<OffloadGroup> group);

  size_t kept_bytes() const;
  /// Bytes in storages of which `is_saved` says that autograd saved nothing, and compressed bytes.
  size_t unsaved_bytes(const std::function<bool(const c10::StorageImpl*)>& is_saved) const;
  size_t compressed_bytes() const;
  /// Their bytes before compression.
  size_t bytes_before_compression() const { return bytes_before_compression_; }
  /// Bytes that the policy wants compressed but that cannot be.
  size_t bytes_not_compressed() const { return bytes_not_compressed_; }
  /// Whether the policy wanted a floating-point result compressed.
  bool is_lossy() const { return is_lossy_; }
  const Policy& policy() const { return *policy_; }

 private:
  friend class ForwardRecorder;
  friend class Replayer;

  struct Calls {
    std::string_view name;  // of the schema, which outlives the recording
    std::string_view overload;
    OpClass op_class;
    std::vector<std::unique_ptr<KeptResult>> results;  // by call; null if recomputed
    size_t keep_decisions = 0;
    std::vector<std::string> ranges = {};  // of these decisions
  };
  std::shared_ptr<const Policy> policy_;
  ska::flat_hash_map<const void*, Calls> calls_;
  std::shared_ptr<OffloadGroup> offload_group_;  // null if nothing was offloaded
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> hidden_aliases_;
  size_t bytes_before_compression_ = 0;
  size_t bytes_not_compressed_ = 0;
  bool is_lossy_ = false;

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
