#include "plan/region_check.h"

#include "checkpoint/ops/op_info.h"
#include "checkpoint/state/thread_state.h"
#include "plan/trace/region_signature.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace reprise::planning {

/// Counts the calls that a policy sees.
class RegionCheck::OpCounter final : public detail::OpObserver {
 public:
  explicit OpCounter(detail::OpObserver& recorder)
      : recorder_(recorder), has_autocast_(detail::ThreadState().has_autocast()) {}

  void call(const c10::OperatorHandle& op,
            c10::DispatchKeySet below,
            torch::jit::Stack* stack) override {
    const bool is_cast =
        has_autocast_ && detail::is_cached_cast(op, detail::arguments_of(op, *stack));
    count += is_cast ? 0 : 1;
    recorder_.call(op, below, stack);
  }

  size_t count = 0;

 private:
  detail::OpObserver& recorder_;
  const bool has_autocast_;
};

RegionCheck::RegionCheck() = default;
RegionCheck::~RegionCheck() = default;

void RegionCheck::refuse(const std::string& planned, const std::string& came) const {
  TORCH_CHECK(false,
              "[plan] region \"",
              planned_->name,
              "\" was planned with ",
              planned,
              " and came with ",
              came,
              ". The step is not the one that was planned: plan again.");
}

void RegionCheck::begin(const RegionDecision& planned,
                        Runs runs,
                        const std::vector<at::Tensor>& inputs,
                        Arguments which) {
  planned_ = planned.signature ? &planned : nullptr;
  awaits_frame_ = planned_ != nullptr && runs == Runs::AsRegion;
  frame_ = nullptr;
  saved_ = 0;
  came_tensor_.clear();
  ops_.reset();
  if (planned_ == nullptr) {
    return;
  }
  auto shapes = planned.signature->inputs;
  if (which == Arguments::First) {
    shapes.resize(std::min(shapes.size(), inputs.size()));
  }
  if (!std::equal(inputs.begin(), inputs.end(), shapes.begin(), shapes.end(), has_shape)) {
    std::vector<TensorShape> came;
    for (const at::Tensor& input : inputs) {
      came.push_back(shape_of(input));
    }
    refuse("the arguments " + describe(shapes), describe(came));
  }
}

detail::OpObserver* RegionCheck::forward_begins(const std::shared_ptr<detail::Frame>& frame,
                                                const CheckpointOptions& /*options*/,
                                                const std::vector<at::Tensor>& /*inputs*/,
                                                detail::OpObserver* recorder) {
  if (!std::exchange(awaits_frame_, false)) {
    return recorder;
  }
  frame_ = frame.get();
  if (recorder == nullptr) {
    return nullptr;
  }
  ops_ = std::make_unique<OpCounter>(*recorder);
  return ops_.get();
}

void RegionCheck::packed(const detail::Frame& frame, const at::Tensor& tensor) {
  if (&frame != frame_) {
    return;
  }
  const size_t index = saved_++;
  const auto& shapes = planned_->signature->saved;
  if (index < shapes.size() && came_tensor_.empty() && !has_shape(tensor, shapes[index])) {
    const std::string which = "saved tensor #" + std::to_string(index) + " of ";
    planned_tensor_ = which + describe(shapes[index]);
    came_tensor_ = describe(shape_of(tensor));
  }
}

void RegionCheck::forward_ended(const detail::Frame& frame) {
  if (&frame == frame_) {
    frame_ = nullptr;
  }
}

void RegionCheck::end(size_t saves) {
  if (planned_ == nullptr) {
    return;
  }
  const RegionSignature& planned = *planned_->signature;
  if (saves != planned.saves) {
    refuse(std::to_string(planned.saves) + " tensors saved for backward", std::to_string(saves));
  }
  if (!came_tensor_.empty()) {
    refuse(planned_tensor_, came_tensor_);
  }
  if (ops_ != nullptr && ops_->count != planned.ops) {
    refuse(std::to_string(planned.ops) + " operators", std::to_string(ops_->count));
  }
  planned_ = nullptr;
}

}  // namespace reprise::planning
