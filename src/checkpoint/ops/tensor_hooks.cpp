#include "checkpoint/ops/tensor_hooks.h"

#include "checkpoint/state/data_writes.h"
#include "checkpoint/state/hook_order.h"
#include "checkpoint/state/retained_grads.h"
#include "checkpoint/state/write_listener.h"
#include "checkpoint/torch_versions.h"

#include <reprise/detail/host_language.h>

#include <ATen/core/VariableHooksInterface.h>

#include <functional>
#include <memory>
#include <utility>

namespace reprise::detail {
namespace {

using at::Tensor;
using at::TensorBase;

class InterceptedHooks final : public at::impl::VariableHooksInterface {
 public:
  explicit InterceptedHooks(at::impl::VariableHooksInterface* next) : next_(next) {}

  unsigned _register_hook(const TensorBase& tensor,
                          std::function<TensorBase(const TensorBase&)> hook) const override {
    return add_hook(Tensor(tensor),
                    [&] { return next_->_register_hook(tensor, numbered_hook(std::move(hook))); });
  }
  void remove_hook(const TensorBase& tensor, unsigned pos) const override {
    if (!hooks_were_added(Tensor(tensor))) {
      next_->remove_hook(tensor, pos);
    }
  }
  void retain_grad(const TensorBase& tensor) const override {
    if (!hooks_were_added(Tensor(tensor))) {
      next_->retain_grad(tensor);
      name_retained(Tensor(tensor));
    }
  }

  TensorBase tensor_data(const TensorBase& t) const override { return next_->tensor_data(t); }
  TensorBase variable_data(const TensorBase& t) const override {
    return noted(t, next_->variable_data(t));
  }
  const NodePtr& grad_fn(const TensorBase& t) const override { return next_->grad_fn(t); }
  bool is_view(const TensorBase& t) const override { return next_->is_view(t); }
  const TensorBase& base(const TensorBase& t) const override { return next_->base(t); }
  const std::string& name(const TensorBase& t) const override { return next_->name(t); }
  bool is_leaf(const TensorBase& t) const override { return next_->is_leaf(t); }
  int64_t output_nr(const TensorBase& t) const override { return next_->output_nr(t); }
  void set_data(const TensorBase& t, const TensorBase& data) const override {
    notify_set(Tensor(t));
    next_->set_data(t, data);
  }
  TensorBase data(const TensorBase& t) const override { return noted(t, next_->data(t)); }
  int64_t _version(const TensorBase& t) const override { return next_->_version(t); }
  bool retains_grad(const TensorBase& t) const override { return next_->retains_grad(t); }
  void _backward(const Tensor& t,
                 at::TensorList inputs,
                 const std::optional<Tensor>& gradient,
                 std::optional<bool> keep_graph,
                 bool create_graph) const override {
    next_->_backward(t, inputs, gradient, keep_graph, create_graph);
  }
  void requires_grad_(const TensorBase& t, bool value) const override {
    next_->requires_grad_(t, value);
  }
  void basic_autograd_not_implemented_fallback(const c10::OperatorHandle& op,
                                               c10::DispatchKeySet keys,
                                               torch::jit::Stack* stack) const override {
    next_->basic_autograd_not_implemented_fallback(op, keys, stack);
  }
  std::optional<c10::ScalarType> grad_dtype(const TensorBase& t) const override {
    return next_->grad_dtype(t);
  }
  void set_grad_dtype(const TensorBase& t,
                      const std::optional<c10::ScalarType>& dtype) const override {
    next_->set_grad_dtype(t, dtype);
  }

 private:
  /// See Note [Writes through data()].
  static TensorBase noted(const TensorBase& tensor, TensorBase data) {
    note_data(Tensor(tensor), Tensor(data));
    return data;
  }

  at::impl::VariableHooksInterface* next_;
};

}  // namespace

unsigned add_host_hook(const Tensor& tensor, const std::function<unsigned()>& add) {
  return add_hook(tensor, add);
}

uint64_t new_host_hook() {
  return new_hook_number();
}

bool may_run_host_hook(uint64_t place) {
  return may_run_hook(place);
}

void intercept_tensor_hooks() {
  // Never destroyed: tensors may outlive static objects.
  static auto* hooks = new InterceptedHooks(at::impl::GetVariableHooks());  // allow: owning-new
  at::impl::SetVariableHooks(hooks);
}

}  // namespace reprise::detail
