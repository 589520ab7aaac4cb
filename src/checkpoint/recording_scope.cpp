// RecordingScope: the forward of a non-reentrant region.
#include <reprise/detail/region.h>

#include "checkpoint/frame.h"
#include "checkpoint/free_list.h"
#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/ops/named_ranges.h"
#include "checkpoint/region_listener.h"

#include <ATen/core/grad_mode.h>

#include <utility>

namespace reprise::detail {
namespace {

/// Replaces one saved tensor of the region's graph by its slot in the frame.
class ForwardHooks final : public torch::autograd::SavedVariableHooks, public FromFreeList {
 public:
  explicit ForwardHooks(std::shared_ptr<Frame> frame) : frame_(std::move(frame)) {}
  ~ForwardHooks() override {
    if (slot_ != nullptr) {
      slot_->is_needed.store(false, std::memory_order_relaxed);
    }
  }
  ForwardHooks(const ForwardHooks&) = delete;
  ForwardHooks& operator=(const ForwardHooks&) = delete;

  // The slot is made here and not in the constructor, because autograd also makes hooks for
  // wrapped numbers and never packs those.
  void call_pack_hook(const at::Tensor& tensor) override {
    slot_ = &frame_->pack(tensor);
    if (has_region_listener()) {
      region_listener()->packed(*frame_, tensor);
    }
  }
  at::Tensor call_unpack_hook() override { return frame_->unpack(*slot_); }

 private:
  std::shared_ptr<Frame> frame_;
  Slot* slot_ = nullptr;
};

OpObserver* forward_observer(const std::shared_ptr<Frame>& frame,
                             const CheckpointOptions& options,
                             const std::vector<at::Tensor>& inputs,
                             OpObserver* recorder) {
  const auto& listener = region_listener();
  return listener == nullptr ? recorder
                             : listener->forward_begins(frame, options, inputs, recorder);
}

void notify_forward_ended(const Frame& frame) {
  if (const auto listener = frame.listener()) {
    listener->forward_ended(frame);
  }
}

}  // namespace

struct RecordingScope::State final : HookSource, WriteListener {
  State(std::shared_ptr<Frame> region_frame,
        const CheckpointOptions& options,
        const std::vector<at::Tensor>& inputs)
      : frame(std::move(region_frame)),
        users_scope(Region::enter(options.forward_scope)),
        recorder(frame->make_recorder()),
        hooks(this),
        effects(kWriteKey),
        listening(this, WriteListenerGuard::Others::Listen),
        drawing(frame->region().draws ? &*frame->region().draws : nullptr),
        once(frame->region().once),
        reading(&frame->region().reads),
        live(frame->region().enter_live()),
        observing(forward_observer(frame, options, inputs, recorder.get())) {}

  std::unique_ptr<torch::autograd::SavedVariableHooks> make_hooks() override {
    return std::make_unique<ForwardHooks>(frame);
  }
  void before_write(const at::Tensor& target) override { frame->before_write(target); }
  void after_write() override { frame->hash_written(); }
  void before_kernel_write(const at::Tensor& target) override {
    frame->before_kernel_write(target);
  }
  void before_set(const at::Tensor& target) override { frame->before_set(target); }
  void before_backward(uint64_t hook_limit) override {
    frame->region().tensor_log.before_backward(hook_limit);
  }
  void before_accumulation(const torch::autograd::edge_list& roots) override {
    frame->region().tensor_log.before_accumulation(roots);
  }
  void run_to_end() override { frame->run_to_end(); }
  void hook_added(const at::Tensor& tensor, unsigned number) override {
    frame->region().tensor_log.hook_added(tensor, number);
  }

  const std::shared_ptr<Frame> frame;
  // Around the observers: what the user's scope does is no part of the region.
  const std::shared_ptr<void> users_scope;
  const std::unique_ptr<ForwardRecorder> recorder;
  const HookSourceGuard hooks;
  const c10::impl::IncludeDispatchKeyGuard effects;
  const WriteListenerGuard listening;
  const DrawGuard drawing;
  const OnceGuard once;
  const ReadGuard reading;
  const NoRangesGuard no_ranges;
  const std::unique_ptr<LiveRegionGuard> live;
  const OpObserverGuard observing;
};

RecordingScope::RecordingScope(const CheckpointOptions& options,
                               std::unique_ptr<RegionBody> body,
                               std::vector<at::Tensor> inputs) {
  require_engine();
  observe_effects();
  // malloc keeps smaller blocks at hand, and tidies up before it gives out a larger one.
  constexpr size_t kMostAtHand = 1032, kReferenceCounts = 16;
  static_assert(sizeof(Frame) + kReferenceCounts <= kMostAtHand, "a region would cost 1 us more");
  frame_ = std::make_shared<Frame>(options, std::move(body), inputs);
  state_ = std::make_unique<State>(frame_, options, inputs);
}

RecordingScope::~RecordingScope() {
  if (!is_complete_) {
    state_.reset();
    frame_->abandon();
    notify_forward_ended(*frame_);
  }
}

void RecordingScope::complete() {
  state_.reset();
  frame_->complete_forward();
  is_complete_ = true;
  notify_forward_ended(*frame_);
}

void RecordingScope::annotate(c10::Error& error) const {
  error.add_context("while running " + frame_->label());
}

bool records_gradients() {
  return at::GradMode::is_enabled();
}

}  // namespace reprise::detail
