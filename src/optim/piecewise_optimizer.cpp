// State is made with the optimizer, not at the first step: what it takes is then known before
// training begins, and a file that is loaded has somewhere to go.
#include "optim/piecewise_optimizer.h"

#include "optim/state_file.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <unordered_set>
#include <utility>

namespace reprise {
namespace {

bool is_16_bit(at::ScalarType dtype) {
  return dtype == at::kHalf || dtype == at::kBFloat16;
}

void check_parameter(const TensorPart& part) {
  const auto& [name, shape, begin, parameter] = part;
  TORCH_CHECK(
      parameter.defined() && parameter.layout() == at::kStrided && parameter.is_contiguous(),
      "[optim] parameter \"",
      name,
      "\": expected a dense, contiguous tensor");
  const at::ScalarType dtype = parameter.scalar_type();
  TORCH_CHECK(is_16_bit(dtype) || dtype == at::kFloat || dtype == at::kDouble,
              "[optim] parameter \"",
              name,
              "\": expected float16, bfloat16, float32 or float64, got ",
              dtype,
              ". Leave it out of the parameters to be trained");
  const int64_t whole = c10::multiply_integers(shape);
  TORCH_CHECK(begin >= 0 && parameter.numel() <= whole - begin,
              "[optim] parameter \"",
              name,
              "\": expected a part of ",
              whole,
              " elements, got ",
              parameter.numel(),
              " from ",
              begin,
              " on");
}

void check_all_differ(const Optimizer::Parameters& parameters) {
  std::unordered_set<std::string> names;
  std::unordered_set<const void*> tensors;
  for (const auto& [name, parameter] : parameters) {
    TORCH_CHECK(names.insert(name).second, "[optim] two parameters are called \"", name, "\"");
    TORCH_CHECK(tensors.insert(parameter.unsafeGetTensorImpl()).second,
                "[optim] parameter \"",
                name,
                "\" is there under another name already: it would be updated twice a step");
  }
}

void check_gradient(const std::string& name, const at::Tensor& parameter) {
  const at::Tensor& grad = parameter.grad();
  TORCH_CHECK(grad.layout() == at::kStrided && grad.device() == parameter.device() &&
                  grad.sizes() == parameter.sizes(),
              "[optim] gradient of \"",
              name,
              "\": expected a dense tensor of ",
              parameter.sizes(),
              " on ",
              parameter.device());
}

// AdamW divides by 1 - beta^step: a count that is none would spoil every parameter.
void check_step_count(const SafetensorsFile& file, const std::string& name) {
  const auto count = file.view(*file.find(name)).item<float>();
  TORCH_CHECK(std::isfinite(count) && count >= 0 && count == std::floor(count),
              "[optim] ",
              file.path().string(),
              ": tensor \"",
              name,
              "\": expected a count of steps, found ",
              count);
}

}  // namespace

PiecewiseOptimizer::PiecewiseOptimizer(std::vector<TensorPart> parameters,
                                       const OptimizerOptions& options)
    : Optimizer(std::move(parameters)), rule_(make_update_rule(options)) {
  const c10::NoGradGuard no_grad;
  std::for_each(parts_.begin(), parts_.end(), check_parameter);
  check_all_differ(parameters_);
  for (const TensorPart& part : parts_) {
    const bool is_decayed = decays(part.name, std::ssize(part.shape));
    slots_.push_back(make_slot(part.values, is_decayed ? options.weight_decay : 0));
  }
  order_.resize(slots_.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::stable_sort(order_.begin(), order_.end(), [this](size_t a, size_t b) {
    return comes_before(slots_[a], slots_[b]);
  });
}

Slot PiecewiseOptimizer::make_slot(const at::Tensor& parameter, double weight_decay) const {
  Slot slot;
  slot.parameter = parameter;
  slot.weight_decay = weight_decay;
  if (is_16_bit(parameter.scalar_type())) {
    slot.master = parameter.detach().to(at::kFloat);
  }
  for (size_t i = 0; i < rule_->state_names().size(); ++i) {
    slot.state.push_back(at::empty_like(slot.value()));
  }
  slot.step = at::zeros({}, parameter.options().dtype(at::kFloat).requires_grad(false));
  return slot;
}

// Note [State is zeroed when it is first used]
// Zeroing touches every page of what is often the largest part of a run's memory: a run would start
// later by that, before anything else could fail. Until then state is reserved and not touched.
void PiecewiseOptimizer::zero_fresh_state() const {
  if (std::exchange(is_fresh_, false)) {
    const c10::NoGradGuard no_grad;
    for (const Slot& slot : slots_) {
      for (const auto& tensor : slot.state) {
        tensor.zero_();
      }
    }
  }
}

int64_t PiecewiseOptimizer::bytes() const {
  return bytes_of(tensors());
}

void PiecewiseOptimizer::step(double learning_rate) {
  TORCH_CHECK(std::isfinite(learning_rate) && learning_rate >= 0,
              "[optim] learning rate: expected at least 0, got ",
              learning_rate);
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> steps;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].parameter.grad().defined()) {
      check_gradient(parameters_[i].first, slots_[i].parameter);
      steps.push_back(slots_[i].step);
    }
  }
  if (steps.empty()) {
    return;
  }
  zero_fresh_state();
  at::_foreach_add_(steps, 1);
  PiecePass pass(*rule_, learning_rate);
  for (const size_t i : order_) {
    if (slots_[i].parameter.grad().defined()) {
      pass.add(slots_[i]);
    }
  }
  pass.finish();
}

NamedTensors PiecewiseOptimizer::state() const {
  zero_fresh_state();
  return tensors();
}

template <class Visit>
void PiecewiseOptimizer::for_each_tensor(const Visit& visit) const {
  for (size_t i = 0; i < slots_.size(); ++i) {
    const std::string prefix = parts_[i].name + "/";
    if (slots_[i].master.defined()) {
      visit(i, prefix + "master", slots_[i].master);
    }
    for (size_t j = 0; j < slots_[i].state.size(); ++j) {
      visit(i, prefix + rule_->state_names()[j], slots_[i].state[j]);
    }
    visit(i, prefix + "step", slots_[i].step);
  }
}

NamedTensors PiecewiseOptimizer::tensors() const {
  NamedTensors state;
  for_each_tensor([&](size_t, std::string name, const at::Tensor& tensor) {
    state.emplace_back(std::move(name), tensor);
  });
  return state;
}

// Whoever has a part of a parameter has its count of steps, and the same.
std::vector<TensorPart> PiecewiseOptimizer::state_parts() const {
  zero_fresh_state();
  std::vector<TensorPart> state;
  for_each_tensor([&](size_t i, std::string name, const at::Tensor& tensor) {
    const bool is_count = tensor.is_same(slots_[i].step);
    state.push_back({std::move(name),
                     is_count ? std::vector<int64_t>() : parts_[i].shape,
                     is_count ? 0 : parts_[i].begin,
                     tensor.view({-1})});
  });
  return state;
}

void PiecewiseOptimizer::load(const SafetensorsFile& file, const World& world) {
  const std::vector<TensorPart> targets = state_parts();
  const auto names = names_everywhere(targets, world);
  world.together("loading " + file.path().string(), [&] {
    check_holds_exactly(file, targets, names);
    for (const TensorPart& part : parts_) {
      check_step_count(file, part.name + "/step");
    }
  });
  copy_state(file, targets);
  const c10::NoGradGuard no_grad;
  for (const Slot& slot : slots_) {
    if (slot.master.defined()) {
      slot.parameter.copy_(slot.master);
    }
  }
}

Optimizer::Parameters PiecewiseOptimizer::wide_parameters() const {
  Parameters wide;
  for (size_t i = 0; i < slots_.size(); ++i) {
    wide.emplace_back(parameters_[i].first, slots_[i].value());
  }
  return wide;
}

}  // namespace reprise
