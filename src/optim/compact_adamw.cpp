#include "optim/compact_adamw.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

namespace reprise {
namespace {

// 16 MiB of float32; whole blocks.
constexpr int64_t kUpdateElements = int64_t{1} << 22;

}  // namespace

WeightSlice::WeightSlice(const ParameterState& state, int64_t begin, int64_t count)
    : target_(state.parameter.view({-1}).narrow(0, begin, count)),
      values_(target_.to(at::kFloat)),
      grads_(state.parameter.grad().reshape({-1}).narrow(0, begin, count).to(at::kFloat)) {}

void WeightSlice::store(const RoundingKey& key, int64_t begin) const {
  if (target_.scalar_type() == at::kBFloat16) {
    round_into(target_, values_, key, begin);
  }
}

void CompactAdamW::check(const TensorPart& part) const {
  const at::ScalarType dtype = part.values.scalar_type();
  TORCH_CHECK(dtype == at::kFloat || dtype == at::kBFloat16,
              "[optim] ",
              name_of(options_.kind),
              ": parameter \"",
              part.name,
              "\": expected float32 or bfloat16, got ",
              dtype,
              ". Use adamw for it");
}

void CompactAdamW::step(const std::vector<const ParameterState*>& parameters,
                        double learning_rate) const {
  for (const ParameterState* state : parameters) {
    const int64_t elements = state->parameter.numel();
    for (int64_t begin = 0; begin < elements; begin += kUpdateElements) {
      update(*state, begin, std::min(kUpdateElements, elements - begin), learning_rate);
    }
  }
}

// Two moments and two results on the way; of a bfloat16 parameter, weights and gradients too.
int64_t CompactAdamW::update_bytes(const std::vector<const ParameterState*>& parameters) const {
  int64_t bytes = 0;
  for (const ParameterState* state : parameters) {
    const int64_t elements = std::min(kUpdateElements, state->parameter.numel());
    bytes = std::max(bytes, elements * 4 * (state->parameter.element_size() == 2 ? 6 : 4));
  }
  return bytes;
}

void CompactAdamW::apply(const ParameterState& state,
                         const WeightSlice& weight,
                         const at::Tensor& exp_avg,
                         const at::Tensor& exp_avg_sq,
                         double learning_rate) const {
  average(weight, exp_avg, exp_avg_sq);
  const auto updates = static_cast<double>(state.updates);
  const double correction1 = 1 - std::pow(options_.beta1, updates);
  const double correction2 = std::sqrt(1 - std::pow(options_.beta2, updates));
  const at::Tensor denominator = exp_avg_sq.sqrt().div_(correction2).add_(options_.epsilon);
  decay(state, weight, learning_rate);
  weight.values().addcdiv_(exp_avg, denominator, -learning_rate / correction1);
}

void CompactAdamW::average(const WeightSlice& weight,
                           const at::Tensor& exp_avg,
                           const at::Tensor& exp_avg_sq) const {
  const at::Tensor& grads = weight.grads();
  exp_avg.mul_(options_.beta1).add_(grads, 1 - options_.beta1);
  exp_avg_sq.mul_(options_.beta2).addcmul_(grads, grads, 1 - options_.beta2);
}

void CompactAdamW::decay(const ParameterState& state,
                         const WeightSlice& weight,
                         double learning_rate) {
  if (state.weight_decay > 0) {
    weight.values().mul_(1 - learning_rate * state.weight_decay);
  }
}

}  // namespace reprise
