// Averages of parameters over the course of training. 16-bit parameters are cast in slices, and
// averages change places with float32 parameters: neither an update nor a swap needs a second
// float32 model.
#include "optim/state_file.h"

#include <reprise/optim/optimizer.h>

#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace reprise {
namespace {

constexpr int64_t kSliceElements = int64_t{1} << 22;

void move_towards(const at::Tensor& average, const at::Tensor& value, double share) {
  const at::Tensor to = average.view({-1});
  const at::Tensor from = value.reshape({-1});
  for (int64_t done = 0; done < to.numel(); done += kSliceElements) {
    const int64_t count = std::min(kSliceElements, to.numel() - done);
    to.narrow(0, done, count).lerp_(from.narrow(0, done, count).to(at::kFloat), share);
  }
}

std::vector<at::Tensor> tensors_of(const Optimizer::Parameters& parameters) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : parameters) {
    tensors.push_back(tensor);
  }
  return tensors;
}

/// Both keep who they are (leaf, name, place in a module); what they hold changes sides.
void exchange(const at::Tensor& one, const at::Tensor& other) {
  const at::Tensor data = one.variable_data();
  one.set_data(other.variable_data());
  other.set_data(data);
}

}  // namespace

MovingAverage::MovingAverage(const Optimizer& optimizer, double decay)
    : MovingAverage(optimizer.wide_parameters(), decay) {
  parameters_ = optimizer.parameters();
}

MovingAverage::MovingAverage(Optimizer::Parameters parameters, double decay)
    : parameters_(std::move(parameters)), values_(tensors_of(parameters_)), decay_(decay) {
  TORCH_CHECK(decay >= 0 && decay < 1,
              "[optim] decay of a moving average: expected at least 0 and below 1, got ",
              decay);
  const c10::NoGradGuard no_grad;
  for (const at::Tensor& value : values_) {
    averages_.push_back(value.detach().to(
        at::kFloat, /*non_blocking=*/false, /*copy=*/true, at::MemoryFormat::Contiguous));
  }
}

// The averages are elsewhere then, and in their place are the parameters' values.
void MovingAverage::check_not_swapped() const {
  TORCH_CHECK(swapped_.expired(),
              "[optim] the averages are in the parameters: end the swap before the next update or "
              "swap, and before they are saved or loaded");
}

void MovingAverage::update() {
  check_not_swapped();
  const c10::NoGradGuard no_grad;
  for (size_t i = 0; i < values_.size(); ++i) {
    move_towards(averages_[i], values_[i], 1 - decay_);
  }
}

NamedTensors MovingAverage::state() const {
  check_not_swapped();
  NamedTensors state;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    state.emplace_back(parameters_[i].first, averages_[i]);
  }
  return state;
}

void MovingAverage::load(const SafetensorsFile& file) {
  const NamedTensors targets = state();
  check_holds_exactly(file, targets);
  copy_state(file, targets);
}

std::unique_ptr<MovingAverage::Swap> MovingAverage::swap() {
  check_not_swapped();
  auto swap = std::make_unique<Swap>(*this);
  swapped_ = swap->token_;
  return swap;
}

MovingAverage::Swap::Swap(const MovingAverage& average) : token_(std::make_shared<const char>()) {
  const c10::NoGradGuard no_grad;
  std::vector<std::pair<at::Tensor, at::Tensor>> rounded;
  // All copies first: where memory runs out, no parameter has changed.
  for (size_t i = 0; i < average.parameters_.size(); ++i) {
    const at::Tensor& parameter = average.parameters_[i].second;
    const at::Tensor& own = average.averages_[i];
    if (parameter.scalar_type() == at::kFloat && parameter.device() == own.device()) {
      exchanged_.emplace_back(parameter, own);
      continue;
    }
    const at::Tensor& value = average.values_[i];
    const bool has_copy = !value.is_same(parameter);
    copied_.emplace_back(parameter, has_copy ? value : parameter.detach().clone());
    rounded.emplace_back(parameter, own);
  }
  for (const auto& [parameter, own] : exchanged_) {
    exchange(parameter, own);
  }
  for (const auto& [parameter, own] : rounded) {
    parameter.copy_(own);
  }
}

MovingAverage::Swap::~Swap() {
  const c10::NoGradGuard no_grad;
  for (const auto& [parameter, average] : exchanged_) {
    exchange(parameter, average);
  }
  for (const auto& [parameter, value] : copied_) {
    parameter.copy_(value);
  }
}

}  // namespace reprise
