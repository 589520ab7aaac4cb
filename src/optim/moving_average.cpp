// The moving average of parameters over training. 16-bit parameters are cast in slices, and
// averages are exchanged with float32 parameters in slices: neither an update nor a swap needs the
// memory of a second float32 model. Where the optimizer's state is in host memory, so are the
// averages; they are computed on the device, a slice at a time.
#include "memory/host_memory.h"
#include "optim/state_file.h"

#include <reprise/optim/optimizer.h>

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace reprise {
namespace {

constexpr int64_t kSliceElements = int64_t{1} << 22;

void move_towards(const at::Tensor& average,
                  const at::Tensor& value,
                  double share,
                  const at::Device& device) {
  const at::Tensor to = average.view({-1});
  const at::Tensor from = value.reshape({-1});
  for (int64_t done = 0; done < to.numel(); done += kSliceElements) {
    const int64_t count = std::min(kSliceElements, to.numel() - done);
    const at::Tensor kept = to.narrow(0, done, count);
    const at::Tensor here = kept.to(device);
    here.lerp_(from.narrow(0, done, count).to(device, at::kFloat), share);
    if (!here.is_same(kept)) {
      kept.copy_(here);
    }
  }
}

at::Tensor float_copy(const at::Tensor& value, bool is_on_host, const at::Device& device) {
  if (is_on_host) {
    return memory::empty_on_host(value.sizes(), at::kFloat, device).copy_(value.detach());
  }
  return at::empty(value.sizes(), at::device(device).dtype(at::kFloat)).copy_(value.detach());
}

/// Exchanges the values of two tensors in slices. Both keep their storage, because a part of a
/// parameter may be a view of storage that others use.
void exchange(const at::Tensor& one, const at::Tensor& other) {
  const at::Tensor a = one.view({-1});
  const at::Tensor b = other.view({-1});
  for (int64_t done = 0; done < a.numel(); done += kSliceElements) {
    const int64_t count = std::min(kSliceElements, a.numel() - done);
    const at::Tensor kept = a.narrow(0, done, count).clone();
    a.narrow(0, done, count).copy_(b.narrow(0, done, count));
    b.narrow(0, done, count).copy_(kept);
  }
}

}  // namespace

MovingAverage::MovingAverage(const Optimizer& optimizer, double decay)
    : MovingAverage(optimizer.parts(),
                    optimizer.wide_parameters(),
                    decay,
                    /*is_on_host=*/optimizer.host_bytes() > 0) {}

MovingAverage::MovingAverage(const Optimizer::Parameters& parameters, double decay)
    : MovingAverage(whole_parts(parameters), parameters, decay, /*is_on_host=*/false) {}

MovingAverage::MovingAverage(std::vector<TensorPart> parts,
                             const Optimizer::Parameters& values,
                             double decay,
                             bool is_on_host)
    : parts_(std::move(parts)), decay_(decay) {
  TORCH_CHECK(decay >= 0 && decay < 1,
              "[optim] decay of a moving average: expected at least 0 and below 1, got ",
              decay);
  const c10::NoGradGuard no_grad;
  for (size_t i = 0; i < values.size(); ++i) {
    const at::Tensor& value = values[i].second;
    values_.push_back(value);
    averages_.push_back(float_copy(value, is_on_host, parts_[i].values.device()));
  }
}

// During a swap the averages are in the parameters, and `averages_` holds the parameters' values.
void MovingAverage::check_not_swapped() const {
  TORCH_CHECK(swapped_.expired(),
              "[optim] the averages are in the parameters: end the swap before the next update or "
              "swap, and before they are saved or loaded");
}

void MovingAverage::update() {
  check_not_swapped();
  const c10::NoGradGuard no_grad;
  for (size_t i = 0; i < values_.size(); ++i) {
    move_towards(averages_[i], values_[i], 1 - decay_, parts_[i].values.device());
  }
}

NamedTensors MovingAverage::state() const {
  check_not_swapped();
  NamedTensors state;
  for (size_t i = 0; i < parts_.size(); ++i) {
    state.emplace_back(parts_[i].name, averages_[i]);
  }
  return state;
}

std::vector<TensorPart> MovingAverage::state_parts() const {
  check_not_swapped();
  std::vector<TensorPart> state;
  for (size_t i = 0; i < parts_.size(); ++i) {
    state.push_back({parts_[i].name, parts_[i].shape, parts_[i].begin, averages_[i].view({-1})});
  }
  return state;
}

void MovingAverage::load(const TensorFile& file, const World& world) {
  const std::vector<TensorPart> targets = state_parts();
  const auto names = names_everywhere(targets, world);
  world.run_on_all("loading " + file.path().string(),
                   [&] { check_holds_exactly(file, targets, names); });
  copy_state(file, targets);
}

void MovingAverage::place(bool is_on_host) {
  check_not_swapped();
  for (size_t i = 0; i < parts_.size(); ++i) {
    averages_[i] = float_copy(averages_[i], is_on_host, parts_[i].values.device());
  }
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
  // Make all copies first, so that no parameter has changed if memory runs out.
  for (size_t i = 0; i < average.parts_.size(); ++i) {
    const at::Tensor& parameter = average.parts_[i].values;
    const at::Tensor& own = average.averages_[i];
    if (parameter.scalar_type() == at::kFloat) {
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
