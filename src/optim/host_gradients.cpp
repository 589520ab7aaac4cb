// See Note [Gradients that leave].
#include "optim/host_gradients.h"

#include "memory/host_memory.h"
#include "optim/gradient_norm.h"

#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace reprise {

class HostGradients::Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(HostGradients& gradients, size_t parameter) : gradients_(gradients), parameter_(parameter) {}

  void operator()(const torch::autograd::Variable&) override { gradients_.take(parameter_); }

 private:
  HostGradients& gradients_;
  size_t parameter_;
};

HostGradients::HostGradients(const Optimizer::Parameters& parameters)
    : device_(parameters.front().second.device()), copies_(device_) {
  using torch::autograd::impl::post_acc_grad_hooks;
  TORCH_CHECK(device_.is_meta() || can_offload(device_),
              "[optim] `gradient_offload` has no effect: the parameters are on ",
              device_,
              ", and so everything is in CPU memory already");
  int64_t largest = 0;
  for (const auto& [name, parameter] : parameters) {
    TORCH_CHECK(parameter.is_leaf() && post_acc_grad_hooks(parameter) == nullptr,
                "[optim] `gradient_offload` takes the gradients of leaf tensors that have no other "
                "hook; \"",
                name,
                parameter.is_leaf() ? "\" has one" : "\" is no leaf");
    TORCH_CHECK(parameter.device() == device_,
                "[optim] `gradient_offload`: expected all parameters on ",
                device_,
                ", found \"",
                name,
                "\" on ",
                parameter.device());
    entries_.push_back(
        {parameter, memory::empty_on_host(parameter.sizes(), parameter.scalar_type(), device_)});
    largest = std::max(largest, static_cast<int64_t>(parameter.nbytes()));
  }
  most_leaving_ = std::min(largest, kMostLeaving);
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].parameter.requires_grad()) {
      torch::autograd::impl::set_post_acc_grad_hooks(entries_[i].parameter,
                                                     std::make_unique<Hook>(*this, i));
    }
  }
}

HostGradients::~HostGradients() {
  for (const Entry& entry : entries_) {
    torch::autograd::impl::set_post_acc_grad_hooks(entry.parameter, nullptr);
  }
}

void HostGradients::take(size_t parameter) {
  const c10::NoGradGuard no_grad;
  Entry& entry = entries_[parameter];
  at::Tensor gradient = std::exchange(entry.parameter.mutable_grad(), at::Tensor());
  TORCH_CHECK(gradient.layout() == at::kStrided && gradient.sizes() == entry.parameter.sizes(),
              "[optim] `gradient_offload`: expected a dense gradient of ",
              entry.parameter.sizes());
  gradient = gradient.contiguous();
  if (rehearsed_ == Rehearsed::Adding || (rehearsed_ == Rehearsed::No && entry.has_value)) {
    gradient = added_to_sum(entry, gradient);
  }
  const at::Tensor norm = at::_foreach_norm(at::TensorList(gradient)).front();
  const auto bytes = static_cast<int64_t>(gradient.nbytes());
  let_leave(most_leaving_ - bytes);
  leaving_bytes_ += bytes;
  leaving_.push_back({gradient, {}});
  if (rehearsed_ == Rehearsed::No) {
    entry.norm = norm;
    entry.has_value = true;
    entry.left = copies_.start(memory::CopyWay::ToHost, {{entry.host, gradient}});
    leaving_.back().left = entry.left;
  }
}

at::Tensor HostGradients::added_to_sum(const Entry& entry, const at::Tensor& gradient) {
  at::Tensor sum = at::empty_like(gradient);
  if (rehearsed_ == Rehearsed::No) {
    copies_.wait(copies_.start(memory::CopyWay::ToDevice, {{sum, entry.host}}, entry.left));
  }
  return sum.add_(gradient);
}

// Frees the oldest until those that are left take at most so many bytes.
void HostGradients::let_leave(int64_t most) {
  while (!leaving_.empty() && leaving_bytes_ > most) {
    copies_.wait(leaving_.front().left);
    leaving_bytes_ -= static_cast<int64_t>(leaving_.front().gradient.nbytes());
    leaving_.pop_front();
  }
}

void HostGradients::end_backward() {
  let_leave(0);
}

HostGradients::Rehearsal::Rehearsal(HostGradients& gradients, bool adds) : gradients_(gradients) {
  gradients_.rehearsed_ = adds ? Rehearsed::Adding : Rehearsed::First;
}

HostGradients::Rehearsal::~Rehearsal() {
  gradients_.let_leave(0);
  gradients_.rehearsed_ = Rehearsed::No;
}

at::Tensor HostGradients::clip(double max_norm) {
  check_max_norm(max_norm);
  const c10::NoGradGuard no_grad;
  // In clip_grad_norm()'s order: by dtype, the first one first.
  std::vector<at::ScalarType> types;
  for (const Entry& entry : entries_) {
    const auto type = entry.host.scalar_type();
    if (entry.has_value && std::find(types.begin(), types.end(), type) == types.end()) {
      types.push_back(type);
    }
  }
  std::vector<at::Tensor> norms;
  for (const auto type : types) {
    for (const Entry& entry : entries_) {
      if (entry.has_value && entry.host.scalar_type() == type) {
        norms.push_back(entry.norm);
      }
    }
  }
  factor_.reset();
  if (norms.empty()) {
    return at::full({}, 0, at::device(device_).dtype(at::kFloat));
  }
  const at::Tensor norm = norm_of_norms(norms);
  if (max_norm > 0) {
    factor_ = clip_factor(norm, max_norm);
  }
  return norm.to(at::kFloat);
}

void HostGradients::zero() {
  let_leave(0);
  factor_.reset();
  for (Entry& entry : entries_) {
    entry.has_value = false;
    entry.norm.reset();
  }
}

int64_t HostGradients::host_bytes() const {
  int64_t bytes = 0;
  for (const Entry& entry : entries_) {
    bytes += static_cast<int64_t>(entry.host.nbytes());
  }
  return bytes;
}

}  // namespace reprise
