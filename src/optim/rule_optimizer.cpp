// State is allocated with the optimizer and not at the first step, so that its size is known before
// training begins and a saved state can be loaded into it.
#include "optim/rule_optimizer.h"

#include "memory/host_memory.h"
#include "optim/state_file.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/empty.h>
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
int64_t count_of_steps(const TensorFile& file, const std::string& name) {
  constexpr float kMost = 1 << 24;  // above, float32 does not count on
  const auto count = file.view(*file.find(name)).item<float>();
  TORCH_CHECK(count >= 0 && count <= kMost && count == std::floor(count),
              "[optim] ",
              file.path().string(),
              ": tensor \"",
              name,
              "\": expected a count of steps, found ",
              count);
  return static_cast<int64_t>(count);
}

}  // namespace

RuleOptimizer::RuleOptimizer(std::vector<TensorPart> parameters, const OptimizerOptions& options)
    : Optimizer(std::move(parameters)),
      rule_(make_update_rule(options)),
      is_offloaded_(options.host.state && !parts_.empty()) {
  const c10::NoGradGuard no_grad;
  std::for_each(parts_.begin(), parts_.end(), check_parameter);
  check_all_differ(parameters_);
  for (const TensorPart& part : parts_) {
    rule_->check(part);
    const bool is_decayed = decays(part.name, std::ssize(part.shape));
    states_.push_back(make_state(part, is_decayed ? options.weight_decay : 0));
  }
  check_offload();
  order_.resize(states_.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::stable_sort(order_.begin(), order_.end(), [this](size_t a, size_t b) {
    return comes_before(states_[a], states_[b]);
  });
  place_gradients(options.host.gradients);
  make_stages();
}

void RuleOptimizer::place(const Placement& host) {
  if (parts_.empty()) {
    return;
  }
  settle();
  stages_.reset();
  place_state(host.state);
  place_gradients(host.gradients);
  make_stages();
}

// Replaces the data and not the tensors: a moving average has them too.
void RuleOptimizer::place_state(bool is_on_host) {
  if (std::exchange(is_offloaded_, is_on_host) == is_on_host) {
    return;
  }
  check_offload();
  const c10::NoGradGuard no_grad;
  for (const ParameterState& state : states_) {
    const auto move = [&](const at::Tensor& tensor, bool has_values) {
      const at::Tensor there = empty_state(tensor.sizes(), tensor.scalar_type(), state.parameter);
      tensor.set_data(has_values ? there.copy_(tensor) : there);
    };
    if (state.master.defined()) {
      move(state.master, /*has_values=*/true);
    }
    for (const at::Tensor& buffer : state.buffers) {
      move(buffer, !is_fresh_);
    }
  }
}

void RuleOptimizer::place_gradients(bool are_on_host) {
  if (are_on_host == (gradients_ != nullptr) || parts_.empty()) {
    return;
  }
  gradients_.reset();  // its hooks too
  if (are_on_host) {
    gradients_ = std::make_unique<HostGradients>(parameters_);
  }
  for (size_t i = 0; i < states_.size(); ++i) {
    states_[i].host_gradient = are_on_host ? gradients_->gradient(i) : at::Tensor();
  }
}

void RuleOptimizer::make_stages() {
  if (!is_offloaded_ && gradients_ == nullptr) {
    return;
  }
  std::vector<const ParameterState*> sorted;
  for (const size_t i : order_) {
    sorted.push_back(&states_[i]);
  }
  const at::Device device = states_.front().parameter.device();
  stages_ = std::make_unique<StagedUpdate>(*rule_, device, is_offloaded_, sorted);
}

void RuleOptimizer::check_offload() const {
  if (!is_offloaded_) {
    return;
  }
  const at::Device device = states_.front().parameter.device();
  TORCH_CHECK(device.is_meta() || can_offload(device),
              "[optim] `optimizer_offload` has no effect: the parameters are on ",
              device,
              ", and so everything is in CPU memory already");
  TORCH_CHECK(host_bytes() > 0,
              "[optim] `optimizer_offload` has no effect: this optimizer keeps no state for these "
              "parameters");
}

ParameterState RuleOptimizer::make_state(const TensorPart& part, double weight_decay) const {
  ParameterState state;
  state.name = part.name;
  state.shape = part.shape;
  state.begin = part.begin;
  state.parameter = part.values;
  state.weight_decay = weight_decay;
  if (rule_->has_copies() && is_16_bit(part.values.scalar_type())) {
    state.master = empty_state(part.values.sizes(), at::kFloat, part.values);
    if (!part.values.is_meta()) {
      state.master.copy_(part.values.detach());
    }
  }
  const auto options = part.values.options().requires_grad(false);
  state.specs = rule_->state_of(part);
  for (const StateSpec& spec : state.specs) {
    const bool is_whole = spec.count == c10::multiply_integers(spec.shape);
    state.buffers.push_back(empty_state(
        is_whole ? spec.shape : std::vector<int64_t>{spec.count}, spec.dtype, part.values));
  }
  state.step = at::zeros({}, options.dtype(at::kFloat));
  return state;
}

at::Tensor RuleOptimizer::empty_state(at::IntArrayRef sizes,
                                      at::ScalarType dtype,
                                      const at::Tensor& like) const {
  return is_offloaded_ ? memory::empty_on_host(sizes, dtype, like.device())
                       : at::empty(sizes, like.options().requires_grad(false).dtype(dtype));
}

// Note [State is zeroed when it is first used]
// Zeroing touches every page of what is often the largest part of a run's memory, which would delay
// the start of a run, and any early error. Until the first use, state is allocated but not touched.
void RuleOptimizer::zero_fresh_state() const {
  if (std::exchange(is_fresh_, false)) {
    const c10::NoGradGuard no_grad;
    for (const ParameterState& state : states_) {
      for (const auto& tensor : state.buffers) {
        tensor.zero_();
      }
    }
  }
}

int64_t RuleOptimizer::bytes() const {
  return bytes_of(tensors());
}

int64_t RuleOptimizer::host_bytes() const {
  int64_t bytes = 0;
  if (is_offloaded_) {
    for (const ParameterState& state : states_) {
      bytes += state.master.defined() ? static_cast<int64_t>(state.master.nbytes()) : 0;
      for (const at::Tensor& buffer : state.buffers) {
        bytes += static_cast<int64_t>(buffer.nbytes());
      }
    }
  }
  return bytes;
}

int64_t RuleOptimizer::moved_bytes() const {
  return (stages_ == nullptr ? 0 : stages_->copies().bytes()) +
         (gradients_ == nullptr ? 0 : gradients_->moved_bytes());
}

void RuleOptimizer::settle() const {
  if (stages_ != nullptr) {
    stages_->copies().synchronize();
  }
}

int64_t RuleOptimizer::update_bytes() const {
  if (stages_ != nullptr) {
    return stages_->update_bytes();
  }
  std::vector<const ParameterState*> all;
  for (const ParameterState& state : states_) {
    all.push_back(&state);
  }
  return rule_->update_bytes(all);
}

void RuleOptimizer::step(double learning_rate) {
  TORCH_CHECK(std::isfinite(learning_rate) && learning_rate >= 0,
              "[optim] learning rate: expected at least 0, got ",
              learning_rate);
  const c10::NoGradGuard no_grad;
  std::vector<const ParameterState*> updated;
  std::vector<at::Tensor> steps;
  for (const size_t i : order_) {
    const ParameterState& state = states_[i];
    if (has_gradient(i)) {
      if (gradients_ == nullptr) {
        check_gradient(state.name, state.parameter);
      }
      updated.push_back(&state);
      steps.push_back(state.step);
    }
  }
  if (updated.empty()) {
    return;
  }
  zero_fresh_state();
  at::_foreach_add_(steps, 1);
  for (const size_t i : order_) {
    states_[i].updates += has_gradient(i) ? 1 : 0;
  }
  if (stages_ != nullptr) {
    stages_->step(
        updated, learning_rate, gradients_ != nullptr ? gradients_->factor() : at::Tensor());
  } else {
    rule_->step(updated, learning_rate);
  }
}

bool RuleOptimizer::has_gradient(size_t parameter) const {
  return gradients_ != nullptr ? gradients_->has(parameter)
                               : states_[parameter].parameter.grad().defined();
}

NamedTensors RuleOptimizer::state() const {
  settle();
  zero_fresh_state();
  return tensors();
}

template <class Visit>
void RuleOptimizer::for_each_tensor(const Visit& visit) const {
  for (size_t i = 0; i < states_.size(); ++i) {
    const std::string prefix = parts_[i].name + "/";
    if (states_[i].master.defined()) {
      visit({prefix + "master", parts_[i].shape, parts_[i].begin, states_[i].master});
    }
    for (size_t j = 0; j < states_[i].buffers.size(); ++j) {
      const StateSpec& spec = states_[i].specs[j];
      visit({prefix + spec.name, spec.shape, spec.begin, states_[i].buffers[j]});
    }
    visit({prefix + "step", {}, 0, states_[i].step});
  }
}

NamedTensors RuleOptimizer::tensors() const {
  NamedTensors state;
  for_each_tensor(
      [&](TensorPart part) { state.emplace_back(std::move(part.name), std::move(part.values)); });
  return state;
}

// Every process with a part of a parameter has the same step count for it.
std::vector<TensorPart> RuleOptimizer::state_parts() const {
  settle();
  zero_fresh_state();
  std::vector<TensorPart> state;
  for_each_tensor([&](TensorPart part) {
    part.values = part.values.view({-1});
    state.push_back(std::move(part));
  });
  return state;
}

void RuleOptimizer::load(const TensorFile& file, const World& world) {
  const std::vector<TensorPart> targets = state_parts();
  const auto names = names_everywhere(targets, world);
  world.run_on_all("loading " + file.path().string(), [&] {
    check_holds_exactly(file, targets, names);
    for (const TensorPart& part : parts_) {
      count_of_steps(file, part.name + "/step");
    }
  });
  copy_state(file, targets);
  const c10::NoGradGuard no_grad;
  for (ParameterState& state : states_) {
    state.updates = count_of_steps(file, state.name + "/step");
    if (state.master.defined()) {
      state.parameter.copy_(state.master);
    }
  }
}

Optimizer::Parameters RuleOptimizer::wide_parameters() const {
  Parameters wide;
  for (size_t i = 0; i < states_.size(); ++i) {
    wide.emplace_back(parameters_[i].first, states_[i].value());
  }
  return wide;
}

}  // namespace reprise
