// The early-stop exception is thrown and caught in this file; bodies of a host language pass it on.
#include "checkpoint/recompute_pass.h"

#include "checkpoint/free_list.h"
#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/state/content_sample.h"
#include "checkpoint/state/unseen_draws.h"
#include "checkpoint/state/value_hash.h"
#include "checkpoint/stats.h"

#include <reprise/detail/host_language.h>

#include <c10/util/accumulate.h>

#include <algorithm>

namespace reprise::detail {
namespace {

at::Tensor detached(const at::Tensor& tensor) {
  // Shares the version counter, so that a later in-place change is noticed. A leaf has no history
  // to detach from.
  return tensor.requires_grad() && !tensor.is_leaf()
             ? at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
                   tensor.unsafeGetTensorImpl()->version_counter(),
                   /*allow_tensor_metadata_change=*/false))
             : tensor;
}

/// Hands the tensors that the recompute's own graph saves to the pass. That graph is normally
/// dropped; only a backward call inside the region unpacks from it.
class RecomputeHooks final : public torch::autograd::SavedVariableHooks, public FromFreeList {
 public:
  explicit RecomputeHooks(RecomputePass& pass) : pass_(pass) {}

  void call_pack_hook(const at::Tensor& tensor) override {
    tensor_ = pass_.alias_of(tensor);
    version_ = tensor_.unsafeGetTensorImpl()->version_counter().current_version();
    pass_.receive(tensor, tensor_);
  }

  at::Tensor call_unpack_hook() override {
    if (tensor_.unsafeGetTensorImpl()->version_counter().current_version() != version_) {
      throw CheckpointError(
          "[reprise] a tensor saved inside a region was modified by an inplace operation "
          "before a backward call inside that region used it.");
    }
    return tensor_;
  }

 private:
  RecomputePass& pass_;
  at::Tensor tensor_;
  uint32_t version_ = 0;
};

}  // namespace

EarlyStop::EarlyStop() = default;
EarlyStop::EarlyStop(const EarlyStop&) = default;
EarlyStop::~EarlyStop() = default;

std::unique_ptr<torch::autograd::SavedVariableHooks> RecomputePass::make_hooks() {
  return std::make_unique<RecomputeHooks>(*this);
}

size_t RecomputePass::find_last_needed() const {
  if (only_) {
    return *only_;
  }
  size_t last = 0;
  for (size_t i = 0; i < frame_.slots_.size(); ++i) {
    last = frame_.slots_[i].is_needed.load(std::memory_order_relaxed) ? i : last;
  }
  return last;
}

const at::Tensor& RecomputePass::alias_of(const at::Tensor& tensor) {
  // The result of one operator is often the input of the next, and both save it.
  if (!tensor.is_same(last_saved_)) {
    last_alias_ = detached(tensor);
    last_saved_ = tensor;
  }
  return last_alias_;
}

void RecomputePass::receive(const at::Tensor& tensor, const at::Tensor& alias) {
  if (received_ >= frame_.slots_.size()) {
    stop_at_end_of_forward();
  }
  const size_t index = received_++;
  if (index == frame_.slots_.size()) {
    first_extra_ = made_by(tensor);
  }
  if (has_stopped_ || index >= frame_.slots_.size()) {
    return;
  }
  const auto& slot = frame_.slots_[index];
  const bool is_wanted = only_ ? index == *only_ : slot.is_needed.load(std::memory_order_relaxed);
  if (is_wanted) {
    compare(index, tensor);
    into_[index] = alias;
    awaits_write_ = awaits_write_ || is_about_to_be_written(tensor);
  }
  if (index >= last_needed_ && !stops_after_write_ && frame_.stops_early_at(index)) {
    if (awaits_write_) {
      // The running operator has saved a tensor (this one or an earlier one) that it has not
      // computed yet. Let it finish.
      stops_after_write_ = true;
    } else {
      stop();
    }
  }
}

void RecomputePass::before_kernel_write(const at::Tensor& target) {
  frame_.preserve(target);
  if (const char* why_not = undo_.before_kernel_write(target)) {
    throw UnrepeatableError(c10::str("[reprise] ", frame_.label(), " ", why_not));
  }
}

void RecomputePass::before_write(const at::Tensor& target) {
  stop_at_end_of_forward();
  frame_.region_.check_write_again(target, undo_);
  frame_.preserve(target);
  tensor_undo_.rewind_view(target);
  if (const char* why_not = undo_.before_write(target)) {
    throw UnrepeatableError(c10::str("[reprise] ", frame_.label(), " ", why_not));
  }
}

void RecomputePass::before_set(const at::Tensor& target) {
  stop_at_end_of_forward();
  if (frame_.region_.tensor_log.has_set(target)) {
    reads_.note_set(target);
  }
}

void RecomputePass::after_write() {
  for (auto& [index, tensor] : std::exchange(unwritten_, {})) {
    compare_values(index, tensor);
  }
  awaits_write_ = false;
  if (stops_after_write_ && !has_stopped_) {
    stop();
  }
}

void RecomputePass::stop_at_end_of_forward() {
  if (!frame_.forward_complete_ && received_ > last_needed_ && !has_stopped_ && !awaits_write_) {
    stop();
  }
}

unsigned RecomputePass::next_hook(const at::Tensor& tensor) {
  stop_at_end_of_forward();
  return hooks_.next(tensor);
}

void RecomputePass::stop() {
  // LibTorch's engine only expects exceptions of the standard library in its nodes.
  if (torch::autograd::get_current_graph_task_id() != graph_task_) {
    throw CheckpointError(
        c10::str("[reprise] ",
                 frame_.label(),
                 " has effects in a backward call inside its own forward, which a recompute that "
                 "this call needs would repeat. Call backward outside of the region."));
  }
  has_stopped_ = true;
  if (const auto* host = host_language()) {
    host->stop_early();
  }
  throw EarlyStop{};
}

void RecomputePass::compare(size_t index, const at::Tensor& tensor) {
  const auto check = frame_.region_.options.determinism_check;
  if (check == DeterminismCheck::None || !difference_.empty()) {
    return;
  }
  const auto& slot = frame_.slots_[index];
  if (!std::ranges::equal(slot.sizes, comparable_sizes(tensor)) ||
      slot.dtype != tensor.scalar_type() || slot.device != tensor.device()) {
    difference_ = other_metadata(index, tensor);
  } else if (check == DeterminismCheck::Values && is_about_to_be_written(tensor)) {
    unwritten_.emplace_back(index, tensor);
  } else {
    compare_values(index, tensor);
  }
}

// Attention on a GPU saves the seed of its dropout in CPU scalars, and without dropout never writes
// them.
bool RecomputePass::may_be_unused_seed(size_t index) const {
  const auto& slot = frame_.slots_[index];
  return slot.device.is_cpu() && c10::isIntegralType(slot.dtype, /*includeBool=*/false) &&
         c10::multiply_integers(slot.sizes) == 1 &&
         !frame_.slots_.all([](const Slot& other) { return other.device.is_cpu(); });
}

void RecomputePass::compare_values(size_t index, const at::Tensor& tensor) {
  const auto& slot = frame_.slots_[index];
  uint64_t before = slot.sample;
  uint64_t now = 0;
  if (slot.hash.defined()) {
    const EngineOpsGuard guard;
    before = static_cast<uint64_t>(slot.hash.item<int64_t>());
    now = static_cast<uint64_t>(value_hash(tensor).item<int64_t>());
  } else if (before != 0) {
    now = content_sample(tensor);
  }
  if (before != now && difference_.empty() && !may_be_unused_seed(index)) {
    difference_ = other_values(index, before, now);
  }
}

void RecomputePass::run_body(std::vector<at::Tensor> inputs) {
  try {
    frame_.region_.body->run(std::move(inputs), /*wants_outputs=*/false);
  } catch (const EarlyStop&) {
    return;
  } catch (...) {
    // After the early stop, this is what a catch (...) in user code has thrown instead.
    if (!has_stopped_) {
      throw;
    }
  }
  if (has_stopped_) {
    throw CheckpointError(c10::str("[reprise] ",
                                   frame_.label(),
                                   " swallowed the early stop of its recompute with a catch (...). "
                                   "Let unknown exceptions pass, or set "
                                   "early_stop = false for this region."));
  }
}

void RecomputePass::report(const Replayer* replayer, std::chrono::nanoseconds time) const {
  RegionStats delta;
  delta.recomputed = 1;
  delta.early_stopped = has_stopped_ ? 1 : 0;
  delta.recompute_time = time;
  delta.ops_replayed = once_.replayed();
  if (replayer != nullptr) {
    delta.ops_replayed += replayer->replayed();
    delta.ops_recomputed = replayer->recomputed();
  }
  count(frame_.region_.options.name, delta);
}

void RecomputePass::run(const RecomputeNotice* notice) {
  const bool counts = counts_stats();
  const auto start =
      counts ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
  auto inputs = frame_.region_.inputs.unpack();
  std::optional<Replayer> replayer;
  if (frame_.recording_) {
    replayer.emplace(*frame_.recording_, frame_.region_, draws_ ? &*draws_ : nullptr, once_);
  }
  std::optional<UnseenDraws> unseen;
  if (frame_.region_.draws) {
    unseen.emplace(*frame_.region_.draws, frame_.region_.options.generators);
  }
  {
    const ThreadStateGuard state(frame_.region_.thread_state);
    const RecomputingGuard recomputing(frame_.region_.early_stop_in_scope);
    const auto users_scope = Region::enter(frame_.region_.options.recompute_scope);
    const RngGuard listed(frame_.region_.listed);
    NodeHooksGuard node_hooks;
    std::for_each(
        inputs.begin(), inputs.end(), [&](const at::Tensor& input) { node_hooks.watch(input); });
    FrozenGuard frozen;
    frame_.region_.reads.for_each([&](const at::Tensor& read) {
      node_hooks.watch(read);
      frozen.watch(read);
    });
    const HookSourceGuard hooks(this);
    const c10::impl::IncludeDispatchKeyGuard effects(kWriteKey);
    const WriteListenerGuard listening(this, WriteListenerGuard::Others::Pause);
    const DrawGuard drawing(draws_ ? &*draws_ : nullptr);
    const OnceGuard once(once_);
    const ReadGuard reading(&reads_);
    const auto live = frame_.region_.enter_live();
    OpObserver* replaying = replayer ? &*replayer : nullptr;
    const OpObserverGuard observing(notice == nullptr ? replaying : notice->observer(replaying));
    run_body(std::move(inputs));
  }
  is_suspect_ = unseen && unseen->settle();
  undo_.put_back();
  if (counts) {
    report(replayer ? &*replayer : nullptr, std::chrono::steady_clock::now() - start);
  }
  check_finished();
}

}  // namespace reprise::detail
