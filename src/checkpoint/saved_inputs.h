// The tensors a region was called with, kept for its recompute.
#pragma once

#include "checkpoint/offload_outgoing.h"

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace reprise::detail {

/// Note [Inputs are saved as autograd saves]
/// An input is a SavedVariable of the region. When the region stands inside another one, that
/// constructor runs the outer region's hooks: the input is then the outer region's to recompute,
/// and nothing here holds it. A plain reference would keep every inner input alive and nesting
/// would free nothing.
class SavedInputs {
 public:
  explicit SavedInputs(const std::vector<at::Tensor>& inputs);

  /// The inputs again; recomputes enclosing regions where necessary. Ask first_modified() before.
  std::vector<at::Tensor> unpack() const;

  /// Index of the first input that was changed in place since it was saved, other than those whose
  /// storage `is_ignored` names.
  std::optional<size_t> first_modified(
      const std::function<bool(const c10::StorageImpl*)>& is_ignored = {}) const;

  /// Whether they belong to a region around this one.
  bool are_hooked() const;
  /// End of forward: offers activations, other than those whose storage `is_written` names. Leaves
  /// (parameters, masks, a batch) stay: somebody else owns them.
  void offer(Outgoing& outgoing,
             const std::function<bool(const c10::StorageImpl*)>& is_written) const;
  /// What was offered and taken is in `parcel` now. Changes in place are noticed as before.
  void move_to(const Outgoing& outgoing, const std::shared_ptr<Parcel>& parcel);

 private:
  struct Input {
    torch::autograd::SavedVariable saved;
    // Inference tensors have no version and cannot be saved variables: held as they are.
    at::Tensor inference;
    c10::VariableVersion version_counter;
    uint32_t version = 0;
    const c10::StorageImpl* storage = nullptr;  // identity only
  };
  /// Has a storage that nobody wrote since.
  static bool is_unchanged(const Input& input);

  std::vector<Input> inputs_;
};

}  // namespace reprise::detail
