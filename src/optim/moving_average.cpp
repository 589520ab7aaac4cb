// Averages of parameters over the course of training. 16-bit parameters are cast in slices, so
// that an update does not need a second float32 model.
#include "optim/state_file.h"

#include <reprise/optim/optimizer.h>

#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace reprise {
namespace {

constexpr int64_t kSliceElements = int64_t{1} << 22;

void move_towards(const at::Tensor& average, const at::Tensor& parameter, double share) {
  const at::Tensor to = average.view({-1});
  const at::Tensor from = parameter.reshape({-1});
  for (int64_t done = 0; done < to.numel(); done += kSliceElements) {
    const int64_t count = std::min(kSliceElements, to.numel() - done);
    to.narrow(0, done, count).lerp_(from.narrow(0, done, count).to(at::kFloat), share);
  }
}

}  // namespace

MovingAverage::MovingAverage(Optimizer::Parameters parameters, double decay)
    : parameters_(std::move(parameters)), decay_(decay) {
  TORCH_CHECK(decay >= 0 && decay < 1,
              "[optim] decay of a moving average: expected at least 0 and below 1, got ",
              decay);
  const c10::NoGradGuard no_grad;
  for (const auto& [name, parameter] : parameters_) {
    averages_.push_back(parameter.detach().to(
        at::kFloat, /*non_blocking=*/false, /*copy=*/true, at::MemoryFormat::Contiguous));
  }
}

void MovingAverage::update() {
  TORCH_CHECK(swapped_.expired(),
              "[optim] the averages are in the parameters: end the swap before the next update");
  const c10::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    move_towards(averages_[i], parameters_[i].second, 1 - decay_);
  }
}

NamedTensors MovingAverage::state() const {
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
  TORCH_CHECK(swapped_.expired(), "[optim] the averages are in the parameters already");
  auto swap = std::make_unique<Swap>(parameters_, averages_);
  swapped_ = swap->token_;
  return swap;
}

MovingAverage::Swap::Swap(const Optimizer::Parameters& parameters,
                          const std::vector<at::Tensor>& averages)
    : token_(std::make_shared<const char>()) {
  const c10::NoGradGuard no_grad;
  // All copies first: where memory runs out, no parameter has changed.
  for (const auto& [name, parameter] : parameters) {
    kept_.emplace_back(parameter, parameter.detach().clone());
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].second.copy_(averages[i]);
  }
}

MovingAverage::Swap::~Swap() {
  const c10::NoGradGuard no_grad;
  for (const auto& [parameter, value] : kept_) {
    parameter.copy_(value);
  }
}

}  // namespace reprise
