// What is said about a recompute that did different work than forward: which operator, in what
// order, and what has probably changed.
#include "checkpoint/recompute_pass.h"

#include <ATen/record_function.h>

#include <algorithm>

namespace reprise::detail {
namespace {

std::string describe(c10::ScalarType dtype, c10::IntArrayRef sizes, c10::Device device) {
  return c10::str(dtype, " ", sizes, " on ", device);
}

}  // namespace

std::string RecomputePass::saved_before(size_t index) const {
  constexpr size_t kNamed = 3;
  std::vector<std::string> names;
  for (size_t i = index; i > 0 && names.size() < kNamed; --i) {
    const auto& slot = frame_.slots_[i - 1];
    const bool is_same_node =
        i < frame_.slots_.size() && frame_.slots_[i].sequence_number == slot.sequence_number;
    if (!is_same_node) {
      names.push_back(frame_.op_of(slot));
    }
  }
  std::string text;
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    text += (text.empty() ? " after " : ", ") + *name;
  }
  return text;
}

std::string RecomputePass::made_by(const at::Tensor& tensor) {
  const auto& node = tensor.grad_fn();
  return node ? ", made by " + node->name() : "";
}

std::string RecomputePass::other_metadata(size_t index, const at::Tensor& tensor) const {
  const auto& slot = frame_.slots_[index];
  return c10::str(
      "tensor #",
      index,
      " (saved by ",
      frame_.op_of(slot),
      ")",
      saved_before(index),
      " was ",
      describe(slot.dtype, slot.sizes, slot.device),
      " in forward and came back as ",
      describe(tensor.scalar_type(), comparable_sizes(tensor), tensor.device()),
      made_by(tensor),
      slot.dtype != tensor.scalar_type()
          ? ". Another dtype: look for an autocast scope that begins or ends inside the "
            "callable, or a module that was converted after forward"
          : "");
}

std::string RecomputePass::other_values(size_t index, uint64_t before, uint64_t now) const {
  const auto& slot = frame_.slots_[index];
  return c10::str("tensor #",
                  index,
                  " (saved by ",
                  frame_.op_of(slot),
                  ", ",
                  describe(slot.dtype, slot.sizes, slot.device),
                  ")",
                  saved_before(index),
                  " came back with different values: content hash ",
                  before,
                  " in forward, ",
                  now,
                  " now");
}

std::string RecomputePass::advice() const {
  std::string text;
  const auto add = [&text](const auto&... parts) { text += c10::str(" ", parts..., "."); };
  const size_t draws = frame_.region_.draws ? frame_.region_.draws->size() : 0;
  if (draws_ && !has_stopped_ && draws_->drawn() < draws) {
    add("Forward drew random numbers ",
        draws,
        draws == 1 ? " time" : " times",
        ", the recompute ",
        draws_->drawn(),
        ": look for train() or eval() in between");
  }
  if (!reads_.new_parameter().empty()) {
    add("It reads a parameter (",
        reads_.new_parameter(),
        ") that forward did not read: look for a module or tensor that was replaced in between");
  }
  if (at::RecordFunction::currentThreadId() != frame_.forward_thread_) {
    add("Forward ran on another thread: thread_local variables are others here");
  }
  add(text.empty() ? "Look" : "Otherwise look",
      " for C++ variables, members and modes that the callable depends on and that changed in "
      "between; reprise::is_recomputing() tells the two runs apart");
  return text;
}

void RecomputePass::check_finished() {
  const size_t expected = frame_.slots_.size();
  frame_.region_.check_reads(reads_);
  if (draws_ && difference_.empty()) {
    difference_ = draws_->difference();
  }
  if (difference_.empty()) {
    difference_ = once_.difference();
  }
  if (!difference_.empty()) {
    throw CheckpointError(
        c10::str("[reprise] ",
                 frame_.label(),
                 " did different work when it was recomputed: ",
                 difference_,
                 ". The callable must compute the same from the same arguments, and draw random "
                 "numbers with operators of LibTorch.",
                 advice()));
  }
  if (has_stopped_ || received_ == expected) {
    return;
  }
  // In a backward call inside the region's own forward, later tensors have not been saved yet.
  if (!frame_.forward_complete_ && received_ > expected) {
    return;
  }
  throw CheckpointError(
      c10::str("[reprise] ",
               frame_.label(),
               " saved ",
               expected,
               expected == 1 ? " tensor" : " tensors",
               " for backward in forward but ",
               received_,
               " when it was run again",
               received_ < expected
                   ? c10::str("; the first that is missing was saved by ",
                              frame_.op_of(frame_.slots_[received_]),
                              saved_before(received_))
                   : c10::str("; the first that is new came", saved_before(expected), first_extra_),
               ". The callable must do the same work each time.",
               advice()));
}

}  // namespace reprise::detail
