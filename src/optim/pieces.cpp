// See Note [Updates in pieces].
#include "optim/pieces.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace reprise {
namespace {

// 64 MiB of float32: large enough that a GPU does not wait for the next call.
constexpr int64_t kPieceElements = int64_t{1} << 24;

auto key_of(const Slot& slot) {
  const at::Device device = slot.parameter.device();
  return std::tuple(slot.weight_decay, slot.parameter.scalar_type(), device.type(), device.index());
}

at::Tensor slice(const at::Tensor& tensor, int64_t begin, int64_t count) {
  return tensor.view({-1}).narrow(0, begin, count);
}

}  // namespace

bool comes_before(const Slot& a, const Slot& b) {
  return key_of(a) < key_of(b);
}

PiecePass::PiecePass(const UpdateRule& rule, double learning_rate)
    : rule_(rule), learning_rate_(learning_rate) {
  clear();
}

void PiecePass::add(const Slot& slot) {
  if (first_ != nullptr && key_of(*first_) != key_of(slot)) {
    finish();
  }
  const at::Tensor grad = slot.parameter.grad().reshape({-1});
  for (int64_t begin = 0; begin < grad.numel(); begin += kPieceElements) {
    const int64_t count = std::min(kPieceElements, grad.numel() - begin);
    if (elements_ + count > kPieceElements) {
      finish();
    }
    add_slice(slot, grad, begin, count);
  }
}

void PiecePass::finish() {
  if (first_ == nullptr) {
    return;
  }
  piece_.weight_decay = first_->weight_decay;
  cast_gradients();
  rule_.apply(piece_, learning_rate_);
  if (!rounded_.empty()) {
    at::_foreach_copy_(rounded_, piece_.values);
  }
  clear();
}

void PiecePass::clear() {
  piece_ = Piece();
  piece_.state.resize(rule_.state_names().size());
  rounded_.clear();
  first_ = nullptr;
  elements_ = 0;
}

void PiecePass::add_slice(const Slot& slot, const at::Tensor& grad, int64_t begin, int64_t count) {
  if (first_ == nullptr) {
    first_ = &slot;
  }
  piece_.values.push_back(slice(slot.value(), begin, count));
  piece_.grads.push_back(grad.narrow(0, begin, count));
  piece_.steps.push_back(slot.step);
  for (size_t i = 0; i < slot.state.size(); ++i) {
    piece_.state[i].push_back(slice(slot.state[i], begin, count));
  }
  if (slot.master.defined()) {
    rounded_.push_back(slice(slot.parameter, begin, count));
  }
  elements_ += count;
}

void PiecePass::cast_gradients() {
  const at::TensorOptions wanted = piece_.values.front().options();
  const bool all_fit = std::all_of(piece_.grads.begin(), piece_.grads.end(), [&](const auto& t) {
    return t.dtype() == wanted.dtype();
  });
  if (all_fit) {
    return;
  }
  const at::Tensor buffer = at::empty({elements_}, wanted);
  std::vector<at::Tensor> cast;
  int64_t begin = 0;
  for (const at::Tensor& grad : piece_.grads) {
    cast.push_back(buffer.narrow(0, begin, grad.numel()));
    begin += grad.numel();
  }
  at::_foreach_copy_(cast, piece_.grads);
  piece_.grads = std::move(cast);
}

}  // namespace reprise
