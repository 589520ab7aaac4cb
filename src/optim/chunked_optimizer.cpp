// State is allocated with the optimizer and not at the first step, so that its size is known before
// training begins and a saved state can be loaded into it.
#include "optim/chunked_optimizer.h"

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
                "\" is also listed under another name: it would be updated twice per step");
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

// AdamW divides by 1 - beta^step: an invalid step count would corrupt every parameter.
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

ChunkedOptimizer::ChunkedOptimizer(std::vector<TensorPart> parameters,
                                   const OptimizerOptions& options)
    : Optimizer(std::move(parameters)), rule_(make_update_rule(options)) {
  const c10::NoGradGuard no_grad;
  std::for_each(parts_.begin(), parts_.end(), check_parameter);
  check_all_differ(parameters_);
  for (const TensorPart& part : parts_) {
    const bool is_decayed = decays(part.name, std::ssize(part.shape));
    states_.push_back(make_state(part.values, is_decayed ? options.weight_decay : 0));
  }
  order_.resize(states_.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::stable_sort(order_.begin(), order_.end(), [this](size_t a, size_t b) {
    return comes_before(states_[a], states_[b]);
  });
}

ParameterState ChunkedOptimizer::make_state(const at::Tensor& parameter,
                                            double weight_decay) const {
  ParameterState state;
  state.parameter = parameter;
  state.weight_decay = weight_decay;
  if (is_16_bit(parameter.scalar_type())) {
    state.master = parameter.detach().to(at::kFloat);
  }
  for (size_t i = 0; i < rule_->state_names().size(); ++i) {
    state.buffers.push_back(at::empty_like(state.value()));
  }
  state.step = at::zeros({}, parameter.options().dtype(at::kFloat).requires_grad(false));
  return state;
}

// Note [State is zeroed when it is first used]
// Zeroing touches every page of what is often the largest part of a run's memory, which would delay
// the start of a run, and any early error. Until the first use, state is allocated but not touched.
void ChunkedOptimizer::zero_fresh_state() const {
  if (std::exchange(is_fresh_, false)) {
    const c10::NoGradGuard no_grad;
    for (const ParameterState& state : states_) {
      for (const auto& tensor : state.buffers) {
        tensor.zero_();
      }
    }
  }
}

int64_t ChunkedOptimizer::bytes() const {
  return bytes_of(tensors());
}

void ChunkedOptimizer::step(double learning_rate) {
  TORCH_CHECK(std::isfinite(learning_rate) && learning_rate >= 0,
              "[optim] learning rate: expected at least 0, got ",
              learning_rate);
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> steps;
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].parameter.grad().defined()) {
      check_gradient(parameters_[i].first, states_[i].parameter);
      steps.push_back(states_[i].step);
    }
  }
  if (steps.empty()) {
    return;
  }
  zero_fresh_state();
  at::_foreach_add_(steps, 1);
  ChunkedUpdate pass(*rule_, learning_rate);
  for (const size_t i : order_) {
    if (states_[i].parameter.grad().defined()) {
      pass.add(states_[i]);
    }
  }
  pass.finish();
}

NamedTensors ChunkedOptimizer::state() const {
  zero_fresh_state();
  return tensors();
}

template <class Visit>
void ChunkedOptimizer::for_each_tensor(const Visit& visit) const {
  for (size_t i = 0; i < states_.size(); ++i) {
    const std::string prefix = parts_[i].name + "/";
    if (states_[i].master.defined()) {
      visit(i, prefix + "master", states_[i].master);
    }
    for (size_t j = 0; j < states_[i].buffers.size(); ++j) {
      visit(i, prefix + rule_->state_names()[j], states_[i].buffers[j]);
    }
    visit(i, prefix + "step", states_[i].step);
  }
}

NamedTensors ChunkedOptimizer::tensors() const {
  NamedTensors state;
  for_each_tensor([&](size_t, std::string name, const at::Tensor& tensor) {
    state.emplace_back(std::move(name), tensor);
  });
  return state;
}

// Every process with a part of a parameter has the same step count for it.
std::vector<TensorPart> ChunkedOptimizer::state_parts() const {
  zero_fresh_state();
  std::vector<TensorPart> state;
  for_each_tensor([&](size_t i, std::string name, const at::Tensor& tensor) {
    const bool is_count = tensor.is_same(states_[i].step);
    state.push_back({std::move(name),
                     is_count ? std::vector<int64_t>() : parts_[i].shape,
                     is_count ? 0 : parts_[i].begin,
                     tensor.view({-1})});
  });
  return state;
}

void ChunkedOptimizer::load(const SafetensorsFile& file, const World& world) {
  const std::vector<TensorPart> targets = state_parts();
  const auto names = names_everywhere(targets, world);
  world.run_on_all("loading " + file.path().string(), [&] {
    check_holds_exactly(file, targets, names);
    for (const TensorPart& part : parts_) {
      check_step_count(file, part.name + "/step");
    }
  });
  copy_state(file, targets);
  const c10::NoGradGuard no_grad;
  for (const ParameterState& state : states_) {
    if (state.master.defined()) {
      state.parameter.copy_(state.master);
    }
  }
}

Optimizer::Parameters ChunkedOptimizer::wide_parameters() const {
  Parameters wide;
  for (size_t i = 0; i < states_.size(); ++i) {
    wide.emplace_back(parameters_[i].first, states_[i].value());
  }
  return wide;
}

}  // namespace reprise
