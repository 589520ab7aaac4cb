#include "checkpoint/state/retained_grads.h"

#include "checkpoint/private_field.h"
#include "checkpoint/state/hook_order.h"

#include <reprise/options.h>

#include <c10/core/TensorImpl.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/cpp_hook.h>

#include <string_view>
#include <typeinfo>
#include <utility>

namespace reprise::detail {
namespace {

using torch::autograd::CppFunctionSingleTensorPreHook;
using torch::autograd::FunctionPreHook;

struct NamedHook {
  c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
  TensorHook accumulate;
  at::TensorBase operator()(const at::TensorBase& gradient) const { return accumulate(gradient); }
};

/// What retain_grad() adds; null if it is another hook. By its name: LibTorch does not export the
/// type.
CppFunctionSingleTensorPreHook* retaining(FunctionPreHook& hook) {
  return std::string_view(typeid(hook).name()) ==
                 "N5torch8autograd30CppFunctionSingleTensorPreHookE"
             ? static_cast<CppFunctionSingleTensorPreHook*>(&hook)
             : nullptr;
}

}  // namespace

void name_retained(const at::Tensor& tensor) {
  const auto* meta = autograd_meta_of(tensor);
  if (meta == nullptr || !meta->grad_fn_) {
    return;  // a leaf
  }
  auto& hooks = meta->grad_fn_->retains_grad_hooks();
  const auto found = hooks.find(meta->output_nr_);
  auto* hook = found == hooks.end() ? nullptr : retaining(*found->second);
  if (hook != nullptr && hook->hook_.target<NamedHook>() == nullptr) {
    hook->hook_ = NamedHook{c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr()),
                            numbered_hook(std::move(hook->hook_))};
  }
}

void add_retained(torch::autograd::Node& node, std::vector<at::Tensor>& tensors) {
  for (const auto& [output, hook] : node.retains_grad_hooks()) {
    const auto* known = retaining(*hook);
    const auto* named = known == nullptr ? nullptr : known->hook_.target<NamedHook>();
    if (named == nullptr) {
      throw CheckpointError(
          c10::str("[reprise] a backward call inside a region retains a gradient of ",
                   node.name(),
                   " by a hook that is not retain_grad()'s, or that was there before Reprise was "
                   "loaded; a recompute would add to it again. Call backward outside of the "
                   "region."));
    }
    if (auto impl = named->tensor.lock()) {
      tensors.emplace_back(std::move(impl));
    }
  }
}

}  // namespace reprise::detail
