// The input tensors of a region, kept for its recompute.
#pragma once

#include "checkpoint/offload/candidates.h"

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
/// An input is stored as a SavedVariable. If the region is inside another one, its constructor
/// calls the outer region's hooks: then the outer region recomputes the input, and nothing here
/// holds it. A plain reference would keep every inner input alive, and nesting would free nothing.
class SavedInputs {
 public:
  explicit SavedInputs(const std::vector<at::Tensor>& inputs);

  /// The inputs. Recomputes enclosing regions if necessary. Check first_modified() before.
  std::vector<at::Tensor> unpack() const;

  /// Index of the first input that was modified in place since it was saved, except for inputs
  /// whose storage is ignored.
  std::optional<size_t> first_modified(
      const std::function<bool(const c10::StorageImpl*)>& is_ignored = {}) const;

  /// Whether they are saved by an enclosing region.
  bool are_hooked() const;
  /// End of forward: adds the activations to offload, except for those that the region has written.
  /// Leaves (parameters, masks, the batch) stay, because the program holds them.
  void add_candidates(OffloadCandidates& candidates,
                      const std::function<bool(const c10::StorageImpl*)>& is_written) const;
  /// Releases the accepted candidates, which are in `group` now. In-place changes are still
  /// detected.
  void move_to(const OffloadCandidates& candidates, const std::shared_ptr<OffloadGroup>& group);

 private:
  struct Input {
    torch::autograd::SavedVariable saved;
    // Inference tensors have no version and cannot be SavedVariables, so they are held directly.
    at::Tensor inference;
    c10::VariableVersion version_counter;
    uint32_t version = 0;
    const c10::StorageImpl* storage = nullptr;  // for identity
  };
  /// Whether it has a storage, which was not written since.
  static bool is_unchanged(const Input& input);

  std::vector<Input> inputs_;
};

}  // namespace reprise::detail
