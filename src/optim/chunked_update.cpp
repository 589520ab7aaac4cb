// See Note [Updates in chunks].
#include "optim/chunked_update.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace reprise {
namespace {

auto key_of(const ParameterState& state) {
  const at::Device device = state.parameter.device();
  return std::tuple(
      state.weight_decay, state.parameter.scalar_type(), device.type(), device.index());
}

at::Tensor slice(const at::Tensor& tensor, int64_t begin, int64_t count) {
  return tensor.view({-1}).narrow(0, begin, count);
}

}  // namespace

bool comes_before(const ParameterState& a, const ParameterState& b) {
  return key_of(a) < key_of(b);
}

ChunkedUpdate::ChunkedUpdate(const ElementwiseRule& rule, double learning_rate)
    : rule_(rule), learning_rate_(learning_rate) {
  clear();
}

void ChunkedUpdate::add(const ParameterState& state) {
  if (first_ != nullptr && key_of(*first_) != key_of(state)) {
    finish();
  }
  const at::Tensor grad = state.parameter.grad().reshape({-1});
  for (int64_t begin = 0; begin < grad.numel(); begin += kChunkElements) {
    const int64_t count = std::min(kChunkElements, grad.numel() - begin);
    if (elements_ + count > kChunkElements) {
      finish();
    }
    add_slice(state, grad, begin, count);
  }
}

void ChunkedUpdate::finish() {
  if (first_ == nullptr) {
    return;
  }
  chunk_.weight_decay = first_->weight_decay;
  cast_gradients();
  rule_.apply(chunk_, learning_rate_);
  if (!rounded_.empty()) {
    at::_foreach_copy_(rounded_, chunk_.values);
  }
  clear();
}

void ChunkedUpdate::clear() {
  chunk_ = Chunk();
  chunk_.state.resize(rule_.state_names().size());
  rounded_.clear();
  first_ = nullptr;
  elements_ = 0;
}

void ChunkedUpdate::add_slice(const ParameterState& state,
                              const at::Tensor& grad,
                              int64_t begin,
                              int64_t count) {
  if (first_ == nullptr) {
    first_ = &state;
  }
  chunk_.values.push_back(slice(state.value(), begin, count));
  chunk_.grads.push_back(grad.narrow(0, begin, count));
  chunk_.steps.push_back(state.step);
  for (size_t i = 0; i < state.buffers.size(); ++i) {
    chunk_.state[i].push_back(slice(state.buffers[i], begin, count));
  }
  if (state.master.defined()) {
    rounded_.push_back(slice(state.parameter, begin, count));
  }
  elements_ += count;
}

void ChunkedUpdate::cast_gradients() {
  const at::TensorOptions wanted = chunk_.values.front().options();
  const bool all_fit = std::all_of(chunk_.grads.begin(), chunk_.grads.end(), [&](const auto& t) {
    return t.dtype() == wanted.dtype();
  });
  if (all_fit) {
    return;
  }
  const at::Tensor buffer = at::empty({elements_}, wanted);
  std::vector<at::Tensor> cast;
  int64_t begin = 0;
  for (const at::Tensor& grad : chunk_.grads) {
    cast.push_back(buffer.narrow(0, begin, grad.numel()));
    begin += grad.numel();
  }
  at::_foreach_copy_(cast, chunk_.grads);
  chunk_.grads = std::move(cast);
}

}  // namespace reprise
