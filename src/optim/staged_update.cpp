// See Note [Updates in stages].
#include "optim/staged_update.h"

#include "optim/chunked_update.h"

#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace reprise {
namespace {

constexpr size_t kBuffers = 3;
constexpr int64_t kAlignment = 256;  // bytes: as LibTorch's allocators align tensors

int64_t aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Elements [begin, begin + count) of a tensor; all of them in its own shape.
at::Tensor part_of(const at::Tensor& tensor, int64_t begin, int64_t count) {
  return count == tensor.numel() ? tensor : tensor.view({-1}).narrow(0, begin, count);
}

/// The elements of a parameter, without a gradient.
at::Tensor values_of(const at::Tensor& parameter, int64_t begin, int64_t count) {
  return part_of(parameter.detach(), begin, count);
}

std::vector<const ParameterState*> pointers_to(const std::vector<ParameterState>& states) {
  std::vector<const ParameterState*> pointers;
  for (const ParameterState& state : states) {
    pointers.push_back(&state);
  }
  return pointers;
}

}  // namespace

StagedUpdate::StagedUpdate(const UpdateRule& rule,
                           c10::Device device,
                           bool moves_state,
                           const std::vector<const ParameterState*>& all)
    : rule_(rule), moves_state_(moves_state), copies_(device) {
  for (const ParameterState* state : all) {
    for (const Slice& slice : slices_of(*state)) {
      stage_bytes_ = std::max(stage_bytes_, staged_bytes(slice));
    }
  }
  const std::vector<Stage> stages = stages_of(all);
  int64_t working = 0;
  for (const Stage& stage : stages) {
    std::vector<ParameterState> views;
    std::transform(
        stage.begin(), stage.end(), std::back_inserter(views), [this](const Slice& each) {
          return view_of(each);
        });
    working = std::max(working, rule.update_bytes(pointers_to(views)));
  }
  update_bytes_ = static_cast<int64_t>(std::min(kBuffers, stages.size())) * stage_bytes_ + working;
}

std::vector<StagedUpdate::Slice> StagedUpdate::slices_of(const ParameterState& state) const {
  const int64_t elements = state.parameter.numel();
  if (rule_.needs_all_of(state)) {
    return {{&state, 0, elements}};
  }
  std::vector<Slice> slices;
  for (int64_t begin = 0; begin < elements; begin += kChunkElements) {
    slices.push_back({&state, begin, std::min(kChunkElements, elements - begin)});
  }
  return slices;
}

// Of the state's tensors, the elements that belong to a slice of the parameter.
ParameterState StagedUpdate::view_of(const Slice& slice) const {
  const auto& [state, begin, count] = slice;
  ParameterState view = *state;
  if (count == state->parameter.numel()) {
    return view;
  }
  view.begin = state->begin + begin;
  view.parameter = values_of(state->parameter, begin, count);
  if (state->parameter.grad().defined()) {
    view.parameter.mutable_grad() = part_of(state->parameter.grad().reshape({-1}), begin, count);
  }
  if (state->host_gradient.defined()) {
    view.host_gradient = part_of(state->host_gradient, begin, count);
  }
  if (state->master.defined()) {
    view.master = part_of(state->master, begin, count);
  }
  view.specs = rule_.state_of({state->name, state->shape, view.begin, view.parameter});
  for (size_t i = 0; i < view.buffers.size(); ++i) {
    view.buffers[i] = part_of(
        state->buffers[i], view.specs[i].begin - state->specs[i].begin, view.specs[i].count);
  }
  return view;
}

int64_t StagedUpdate::staged_bytes(const Slice& slice) const {
  const ParameterState view = view_of(slice);
  int64_t bytes = 0;
  const auto count = [&bytes](const at::Tensor& tensor) {
    bytes += tensor.defined() ? aligned(static_cast<int64_t>(tensor.nbytes())) : 0;
  };
  count(view.host_gradient);
  if (moves_state_) {
    count(view.master);
    std::for_each(view.buffers.begin(), view.buffers.end(), count);
  }
  return bytes;
}

std::vector<StagedUpdate::Stage> StagedUpdate::stages_of(
    const std::vector<const ParameterState*>& parameters) const {
  std::vector<Stage> stages;
  int64_t bytes = stage_bytes_;
  for (const ParameterState* state : parameters) {
    for (const Slice& slice : slices_of(*state)) {
      const int64_t more = staged_bytes(slice);
      if (stages.empty() || bytes + more > stage_bytes_) {
        stages.emplace_back();
        bytes = 0;
      }
      stages.back().push_back(slice);
      bytes += more;
    }
  }
  return stages;
}

StagedUpdate::Staged StagedUpdate::stage(const Stage& slices, const at::Tensor& buffer) const {
  Staged staged;
  int64_t end = 0;
  const auto place_for = [&](const at::Tensor& tensor) {
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    const int64_t begin = std::exchange(end, end + aligned(bytes));
    at::Tensor here =
        buffer.narrow(0, begin, bytes).view(tensor.scalar_type()).view(tensor.sizes());
    staged.in.push_back({here, tensor});
    return here;
  };
  const auto move = [&](at::Tensor& tensor) {
    if (tensor.defined() && tensor.numel() > 0) {
      at::Tensor here = place_for(tensor);
      staged.out.push_back({tensor, here});
      tensor = std::move(here);
    }
  };
  for (const Slice& slice : slices) {
    ParameterState state = view_of(slice);
    if (state.host_gradient.defined()) {
      state.parameter = state.parameter.detach();
      state.parameter.mutable_grad() = place_for(state.host_gradient);
      staged.gradients.push_back(state.parameter.grad());
    }
    if (moves_state_) {
      move(state.master);
      std::for_each(state.buffers.begin(), state.buffers.end(), move);
    }
    staged.states.push_back(std::move(state));
  }
  return staged;
}

void StagedUpdate::step(const std::vector<const ParameterState*>& parameters,
                        double learning_rate,
                        const at::Tensor& factor) {
  using memory::CopyWay;
  struct Buffer {
    at::Tensor memory;
    Staged staged;
    memory::CopyMark arrived, left;
  };
  const std::vector<Stage> stages = stages_of(parameters);
  std::array<Buffer, kBuffers> buffers;
  const memory::CopyScope scope(copies_);  // ends before the buffers are freed

  const auto fetch = [&](size_t index) {
    Buffer& buffer = buffers[index % kBuffers];
    if (!buffer.memory.defined()) {
      buffer.memory = at::empty({stage_bytes_}, at::device(copies_.device()).dtype(at::kByte));
    }
    buffer.staged = stage(stages[index], buffer.memory);
    buffer.arrived = copies_.start(CopyWay::ToDevice, buffer.staged.in, buffer.left);
  };
  fetch(0);
  for (size_t i = 0; i < stages.size(); ++i) {
    if (i + 1 < stages.size()) {
      fetch(i + 1);
    }
    Buffer& buffer = buffers[i % kBuffers];
    copies_.wait(buffer.arrived);
    if (factor.defined()) {
      at::_foreach_mul_(buffer.staged.gradients, factor);
    }
    rule_.step(pointers_to(buffer.staged.states), learning_rate);
    buffer.left = copies_.start(CopyWay::ToHost, buffer.staged.out);
  }
}

}  // namespace reprise
