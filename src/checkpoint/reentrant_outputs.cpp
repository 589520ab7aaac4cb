#include "checkpoint/reentrant_outputs.h"

#include "checkpoint/state/view_history.h"

#include <c10/core/TensorImpl.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace reprise::detail {
namespace {

at::Tensor alias_of(const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  return at::Tensor(impl->shallow_copy_and_detach(impl->version_counter(),
                                                  /*allow_tensor_metadata_change=*/true));
}

/// The tensors that hold the memory of the outputs, as far as the region's result explains them:
/// the outputs, and what they are views of.
class Explained {
 public:
  explicit Explained(const std::vector<at::Tensor>& outputs) {
    for (const auto& output : outputs) {
      if (output.defined()) {
        add(output, /*owners=*/2);  // the result of the callable, and the list
      }
    }
    outputs_ = held_.size();
    for (size_t i = 0; i < held_.size(); ++i) {
      const auto* view = torch::autograd::impl::get_view_autograd_meta(held_[i].tensor);
      if (view != nullptr && view->has_bw_view()) {
        add(view->get_backward_view().base_, /*owners=*/1);
      }
      if (view != nullptr && view->has_fw_view() && !view->shared_view_info()) {
        add(view->get_forward_view().base_, /*owners=*/1);
      }
    }
  }

  bool has_other_name(const at::Tensor& output) const {
    size_t names = 0;
    size_t outputs = 0;
    for (size_t i = 0; i < held_.size(); ++i) {
      const auto& held = held_[i];
      if (!held.tensor.is_same(output) && !shares_memory(held.tensor, output)) {
        continue;
      }
      if (held.tensor.use_count() > held.owners + 1) {  // and we
        return true;
      }
      ++names;
      outputs += i < outputs_ ? 1 : 0;
    }
    return outputs > 1 || (output.has_storage() && output.storage().use_count() > names);
  }

  static bool shares_memory(const at::Tensor& a, const at::Tensor& b) {
    return a.has_storage() && b.has_storage() && a.storage().is_alias_of(b.storage());
  }

 private:
  struct Held {
    at::Tensor tensor;
    size_t owners;
  };

  void add(const at::Tensor& tensor, size_t owners) {
    const auto found = std::find_if(held_.begin(), held_.end(), [&tensor](const Held& held) {
      return held.tensor.is_same(tensor);
    });
    if (found != held_.end()) {
      found->owners += owners;
    } else {
      held_.push_back({tensor, owners});
    }
  }

  std::vector<Held> held_;
  size_t outputs_ = 0;  // the first so many
};

}  // namespace

std::vector<bool> have_other_names(const std::vector<at::Tensor>& outputs,
                                   const std::vector<at::Tensor>& inputs) {
  const Explained explained(outputs);
  std::vector<bool> results;
  for (const auto& output : outputs) {
    results.push_back(output.defined() &&
                      (explained.has_other_name(output) ||
                       std::any_of(inputs.begin(), inputs.end(), [&](const at::Tensor& input) {
                         return input.defined() &&
                                (input.is_same(output) || Explained::shares_memory(input, output));
                       })));
  }
  return results;
}

at::Tensor detached_output(const at::Tensor& output, bool has_other_name) {
  auto alias = alias_of(output);
  if (!has_other_name) {
    return alias;
  }
  using torch::autograd::ViewInfo;
  return torch::autograd::make_variable_differentiable_view(
      alias,
      ViewInfo(alias_of(output), /*view_fn=*/nullptr, /*rev_view_fn=*/nullptr),
      /*forward_info=*/std::nullopt,
      /*shared_view_info=*/false,
      torch::autograd::CreationMeta::IN_CUSTOM_FUNCTION);
}

}  // namespace reprise::detail
