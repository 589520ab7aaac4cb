#include "checkpoint/state/saved_inputs.h"

#include "checkpoint/offload/placeholder.h"
#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/state/data_writes.h"
#include "checkpoint/state/tensor_log.h"
#include "checkpoint/state/view_history.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/functions/basic_ops.h>

#include <algorithm>
#include <typeinfo>
#include <utility>

namespace reprise::detail {
namespace {

/// Restores an offloaded input.
class OffloadedInput final : public torch::autograd::SavedVariableHooks {
 public:
  OffloadedInput(std::shared_ptr<OffloadGroup> group, size_t item)
      : offload_group_(std::move(group)), item_(item) {}
  void call_pack_hook(const at::Tensor& tensor) override { tensor_ = placeholder_for(tensor); }
  at::Tensor call_unpack_hook() override {
    return with_storage(tensor_, offload_group_->take(item_));
  }

 private:
  const std::shared_ptr<OffloadGroup> offload_group_;
  const size_t item_;
  at::Tensor tensor_;
};

/// Whether a tensor with a history is the result of an operator, and not a view of a leaf.
bool is_activation(const at::Tensor& tensor) {
  return !(tensor.is_view() && tensor._base().is_leaf());
}

/// Whether the recompute can do with its sizes, if it does not read it.
bool is_plain(const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  return supports_placeholder(tensor) && typeid(*impl) == typeid(c10::TensorImpl) &&
         !tensor._is_zerotensor() && !impl->is_python_dispatch();
}

/// Shares storage and version counter.
at::Tensor detached_alias(const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  return at::Tensor(impl->shallow_copy_and_detach(impl->version_counter(),
                                                  /*allow_tensor_metadata_change=*/true));
}

}  // namespace

void SavedInputs::Input::note_history(const at::Tensor& tensor) {
  if (is_stale(tensor)) {
    itself = WeakTensor(tensor.getIntrusivePtr());
    return;
  }
  const auto* meta = autograd_meta_of(tensor);
  grad_fn = WeakNode(meta->grad_fn_);
  output_nr = meta->output_nr_;
}

void SavedInputs::Input::note_got_history() {
  itself = WeakTensor(held.getIntrusivePtr());
  base = WeakTensor(base_of(held).getIntrusivePtr());
  held = detached_alias(held);
}

at::Tensor SavedInputs::Input::same_name() const {
  if (auto tensor = locked(itself); tensor.defined()) {
    return tensor;
  }
  // A view that the program has dropped.
  if (const auto viewed = locked(base);
      viewed.defined() && viewed.layout() == at::kStrided && viewed.dtype() == held.dtype() &&
      viewed.is_conj() == held.is_conj() && viewed.is_neg() == held.is_neg()) {
    const EngineOpsGuard guard;
    const at::AutoGradMode as_in_forward(true);
    return viewed.as_strided(held.sizes(), held.strides(), held.storage_offset());
  }
  return held;
}

SavedInputs::SavedInputs(const std::vector<at::Tensor>& inputs) {
  inputs_.reserve(inputs.size());
  for (const auto& tensor : inputs) {
    Input input;
    if (tensor.defined() && tensor.is_inference()) {
      input.held = tensor;
    } else if (tensor.defined() && has_lost_history(tensor)) {
      input.held = tensor;
    } else if (tensor.defined()) {
      input.has_history = has_history(tensor);
      input.requires_grad = tensor.requires_grad();
      input.attr_version = attr_version_of(tensor);
      if (input.has_history) {
        input.is_activation = is_activation(tensor);
        input.note_history(tensor);
      }
      input.saved = torch::autograd::SavedVariable(
          input.has_history ? detached_alias(tensor) : tensor, /*is_output=*/false);
      input.version_counter = tensor.unsafeGetTensorImpl()->version_counter();
      input.version = input.version_counter.current_version();
      input.storage = tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
      input.data_writes = data_writes(input.storage);
      if (!input.has_history && !input.saved.has_hooks()) {
        input.saved = torch::autograd::SavedVariable();
        input.held = tensor;
      }
      if (input.storage != nullptr && input.saved.has_hooks() && !tensor.is_nested()) {
        input.shape = std::make_unique<Shape>(
            Shape{c10::weak_intrusive_ptr<c10::StorageImpl>(tensor.storage().getWeakStorageImpl()),
                  tensor.sizes().vec(),
                  tensor.strides().vec(),
                  tensor.storage_offset(),
                  tensor.options()});
      }
    }
    input.is_releasable = input.is_activation && !input.saved.has_hooks() && is_plain(tensor);
    inputs_.push_back(std::move(input));
  }
  for (auto& input : inputs_) {
    input.is_releasable = input.is_releasable && is_alone(input.storage);
  }
}

bool SavedInputs::is_alone(const c10::StorageImpl* storage) const {
  return std::count_if(inputs_.begin(), inputs_.end(), [storage](const Input& input) {
           return input.storage == storage;
         }) == 1;
}

void SavedInputs::release(const std::function<bool(const c10::StorageImpl*)>& is_unread,
                          const std::function<std::string()>& label) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    auto& input = inputs_[i];
    if (!input.is_releasable || !is_unread(input.storage)) {
      continue;
    }
    auto why = c10::str(
        "[reprise] ",
        label(),
        " did different work when it was recomputed: it reads its input tensor #",
        i,
        ", which no operator read in forward before the last tensor that autograd saved, so that "
        "it was released. The callable must do the same work each time. Memory that it reads "
        "without an operator of LibTorch (data_ptr, another thread) must be that of a tensor that "
        "it captures: those are held.");
    auto placeholder = unreadable_placeholder_for(input.saved.unpack(), why);
    input.unread = std::make_unique<Unread>(Unread{std::move(placeholder), std::move(why)});
    input.saved = torch::autograd::SavedVariable();
    // It may be changed now, and its address be used again.
    input.version_counter = {};
    input.storage = nullptr;
    has_unread_ = true;
  }
}

const std::string* SavedInputs::why_unreadable(const c10::StorageImpl* storage) const {
  for (const auto& input : inputs_) {
    if (input.unread && input.unread->placeholder.storage().unsafeGetStorageImpl() == storage) {
      return &input.unread->why;
    }
  }
  return nullptr;
}

at::Tensor SavedInputs::with_history(const Input& input, const at::Tensor& detached) {
  if (!input.has_history) {
    return detached;
  }
  auto tensor = detached_alias(detached);
  auto grad_fn = input.grad_fn.lock();
  uint32_t output_nr = input.output_nr;
  if (grad_fn == nullptr) {
    // Nothing depends on a history that is gone, but the tensor must not become a leaf.
    grad_fn = make_node<torch::autograd::Error>(
        "[reprise] the history of a region's input is gone, so a backward call inside the region "
        "cannot use it");
    grad_fn->add_input_metadata(detached);
    output_nr = 0;
  }
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_autograd_meta(std::make_unique<torch::autograd::AutogradMeta>(
      impl, /*requires_grad=*/false, torch::autograd::Edge(std::move(grad_fn), output_nr)));
  return tensor;
}

void SavedInputs::take_written(const WriteLog& log, TensorLog& tensors) {
  for (auto& input : inputs_) {
    if (const auto stale = locked(input.itself); stale.defined()) {
      input.note_history(stale);
    }
    if (input.held.defined() && has_history(input.held) && !has_lost_history(input.held)) {
      tensors.note_without_history(input.held, input.attr_version);
      input.note_got_history();
    }
    if (input.shape == nullptr) {
      continue;
    }
    input.shape->content = log.content_of(input.storage);
    if (input.shape->content.defined()) {
      input.saved = torch::autograd::SavedVariable();
    }
  }
}

at::Tensor SavedInputs::from_content(const Input& input, MadeStorages& made) {
  const EngineOpsGuard guard;
  const auto& shape = *input.shape;
  auto& storage = made[input.storage];
  // If the program still holds it, a capture may refer to it too. WriteUndo has rewound it.
  auto held = shape.storage.lock();
  const bool is_held = held != nullptr;
  if (!storage) {
    storage = held ? c10::Storage(std::move(held)) : shape.content.clone().storage();
  }
  auto tensor = at::empty({0}, shape.options);
  tensor.set_(storage, shape.offset, shape.sizes, shape.strides);
  if (is_held) {
    tensor.unsafeGetTensorImpl()->set_version_counter(input.version_counter);
  }
  if (input.requires_grad && !input.has_history) {
    tensor.set_requires_grad(true);
  }
  return tensor;
}

std::optional<size_t> SavedInputs::first_modified(
    const std::function<bool(const c10::StorageImpl*)>& is_ignored) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const auto& input = inputs_[i];
    const bool is_from_content = input.shape && input.shape->content.defined();
    if (input.version_counter.enabled() && !is_from_content &&
        (input.version_counter.current_version() != input.version ||
         input.data_writes != data_writes(input.storage)) &&
        !(is_ignored && is_ignored(input.storage))) {
      return i;
    }
  }
  return std::nullopt;
}

bool SavedInputs::is_unchanged(const Input& input) {
  return input.storage != nullptr && input.version_counter.current_version() == input.version;
}

bool SavedInputs::are_in(const c10::StorageImpl* storage) const {
  return std::any_of(inputs_.begin(), inputs_.end(), [storage](const Input& input) {
    return input.storage == storage && !input.held.defined();
  });
}

bool SavedInputs::are_hooked() const {
  return std::any_of(
      inputs_.begin(), inputs_.end(), [](const Input& input) { return input.saved.has_hooks(); });
}

void SavedInputs::add_candidates(
    OffloadCandidates& candidates,
    const std::function<bool(const c10::StorageImpl*)>& is_written) const {
  for (const auto& input : inputs_) {
    if (input.storage == nullptr) {
      continue;
    }
    if (!is_unchanged(input) || is_written(input.storage)) {
      // The recompute starts from its content in the write log.
      candidates.skip(input.storage->nbytes());
      continue;
    }
    const auto tensor = input.held.defined() ? input.held : input.saved.unpack();
    if (input.is_activation && supports_placeholder(tensor)) {
      candidates.add(tensor.storage(), /*is_shared=*/true);
    } else {
      candidates.skip(tensor.storage().nbytes());
    }
  }
}

void SavedInputs::move_to(const OffloadCandidates& candidates,
                          const std::shared_ptr<OffloadGroup>& group) {
  for (auto& input : inputs_) {
    if (!is_unchanged(input) || !input.is_activation) {
      continue;
    }
    const auto tensor = input.saved.unpack();
    const auto item = candidates.find(tensor.storage());
    if (item && supports_placeholder(tensor)) {
      input.saved.register_hooks(std::make_unique<OffloadedInput>(group, *item));
    }
  }
}

std::vector<at::Tensor> SavedInputs::unpack() const {
  std::vector<at::Tensor> tensors;
  tensors.reserve(inputs_.size());
  MadeStorages made;
  for (const auto& input : inputs_) {
    if (input.held.defined()) {
      tensors.push_back(input.same_name());
    } else if (input.unread) {
      tensors.push_back(with_history(input, input.unread->placeholder));
    } else if (input.shape && input.shape->content.defined()) {
      tensors.push_back(with_history(input, from_content(input, made)));
    } else {
      tensors.push_back(with_history(input, input.saved.unpack()));
    }
  }
  return tensors;
}

}  // namespace reprise::detail
