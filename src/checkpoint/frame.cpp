#include "checkpoint/frame.h"

#include "checkpoint/state/content_sample.h"
#include "checkpoint/state/value_hash.h"
#include "checkpoint/state/version_counter.h"
#include "checkpoint/stats.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <set>
#include <utility>

namespace reprise::detail {

namespace {

bool is_leaf_with_gradient(const at::Tensor& tensor) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  return meta != nullptr && meta->requires_grad_ && !meta->grad_fn_;
}

}  // namespace

/// Counts the tensors that a region drops, for the statistics.
class Frame::DropCount {
 public:
  void add(const at::Tensor& tensor) {
    ++tensors;
    if (!tensor.has_storage()) {
      return;
    }
    auto* storage = tensor.storage().unsafeGetStorageImpl();
    if (seen_.insert(storage).second) {
      // A weak reference does not extend the storage's life, but keeps its address from being
      // reused.
      storages_.emplace_back(tensor.storage().getWeakStorageImpl(), storage->nbytes());
    }
  }

  /// Bytes that have been freed. Inputs, outputs and parameters are still alive.
  size_t bytes() const {
    size_t total = 0;
    for (const auto& [storage, size] : storages_) {
      total += storage.expired() ? size : 0;
    }
    return total;
  }

  void note_inputs(const std::vector<at::Tensor>& inputs) {
    for (const at::Tensor& input : inputs) {
      if (input.has_storage() && input.is_floating_point() && !is_leaf_with_gradient(input)) {
        inputs_.emplace_back(input.storage().getWeakStorageImpl());
      }
    }
  }

  /// Bytes of inputs that autograd has not saved inside. A storage counts for one region only.
  template <class IsReleased>
  size_t unsaved_input_bytes(const IsReleased& is_released) const {
    size_t total = 0;
    for (const auto& input : inputs_) {
      const c10::Storage storage(input.lock());
      if (storage && !has(storage.unsafeGetStorageImpl()) &&
          !is_released(storage.unsafeGetStorageImpl()) && is_first_holder(storage)) {
        total += storage.nbytes();
      }
    }
    return total;
  }

  /// Whether autograd has saved a tensor in this storage.
  bool has(const c10::StorageImpl* storage) const { return seen_.contains(storage); }

  size_t tensors = 0;

 private:
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> inputs_;
  std::set<const void*> seen_;
  std::vector<std::pair<c10::weak_intrusive_ptr<c10::StorageImpl>, size_t>> storages_;
};

Frame::Frame(const CheckpointOptions& options,
             std::unique_ptr<RegionBody> body,
             const std::vector<at::Tensor>& inputs)
    : region_(options, std::move(body), inputs),
      recording_(options.policy ? std::make_unique<OpRecording>(options.policy) : nullptr),
      forward_thread_(at::RecordFunction::currentThreadId()),
      listener_(region_listener()),
      has_samples_(options.determinism_check == DeterminismCheck::Metadata &&
                   options.preserve_rng_state && !options.allow_lossy),
      drops_(counts_stats() ? std::make_unique<DropCount>() : nullptr) {
  if (drops_) {
    drops_->note_inputs(inputs);
  }
  watch_inputs();
}

Frame::~Frame() = default;

std::unique_ptr<ForwardRecorder> Frame::make_recorder() {
  return recording_ ? std::make_unique<ForwardRecorder>(*recording_, region_, is_recomputing_any())
                    : nullptr;
}

Slot& Frame::pack(const at::Tensor& tensor) {
  region_.check_real(tensor, "a tensor that it uses");
  Slot& slot = slots_.add(tensor, region_.options.determinism_check);
  if (has_samples_) {
    // A buffer that is being written may be left as it is by a replay.
    // Another parameter shows in what is computed from it, unless a policy keeps that.
    const bool has_sample = (!slot.is_parameter || recording_) && !is_about_to_be_written(tensor);
    slot.sample = has_sample ? content_sample(tensor) : 0;
  } else if (region_.options.determinism_check == DeterminismCheck::Values) {
    if (is_about_to_be_written(tensor)) {
      if (!unwritten_) {
        unwritten_ = std::make_unique<std::vector<std::pair<size_t, at::Tensor>>>();
      }
      unwritten_->emplace_back(slot.index, tensor.detach());
    } else {
      slot.hash = saved_value_hash(tensor);
    }
  }
  if (drops_) {
    drops_->add(tensor);
  }
  region_.reads.inputs.saved(tensor);
  return slot;
}

void Frame::before_kernel_write(const at::Tensor& target) {
  preserve(target);
  region_.write_log.record_kernel_write(target);
}

void Frame::preserve(const at::Tensor& written) {
  if (!written.has_storage()) {
    return;
  }
  if (recording_) {
    recording_->preserve(written.storage());
  }
  region_.once.preserve(written.storage());
}

void Frame::before_write(const at::Tensor& target) {
  region_.check_real(target, "a tensor that it writes");
  preserve(target);
  region_.tensor_log.before_write(target);
  region_.write_log.record(target);
}

void Frame::hash_written() {
  if (const auto written = std::move(unwritten_)) {
    for (const auto& [slot, tensor] : *written) {
      slots_[slot].hash = saved_value_hash(tensor);
    }
  }
}

std::function<bool(const c10::StorageImpl*)> Frame::is_kept() const {
  return [this](const c10::StorageImpl* storage) {
    return (recording_ && recording_->holds(storage)) || region_.once.holds(storage);
  };
}

void Frame::complete_forward() {
  forward_complete_ = true;
  // No node was created after the one that saved last, and that one saved its own result.
  ends_with_last_slot_ = !slots_.empty() && slots_.back().is_result &&
                         slots_.back().sequence_number + 1 == at::sequence_number::peek();
  const auto is_released = [this](const auto* storage) { return will_release(storage); };
  const bool counts = drops_ != nullptr;
  const bool is_first_run = !is_recomputing_any();
  const auto is_saved = [this](const auto* storage) { return drops_->has(storage); };
  RegionStats delta;
  if (counts) {
    delta.entered = 1;
    delta.tensors_dropped = drops_->tensors;
  }
  if (counts && is_first_run) {
    delta.bytes_dropped = drops_->bytes();
    delta.bytes_unsaved =
        (recording_ ? recording_->unsaved_bytes(is_saved) : 0) +
        (region_.inputs.are_hooked() ? 0 : drops_->unsaved_input_bytes(is_released));
  }
  if (recording_) {
    recording_->detach_hidden();
    recording_->verify();
    region_.check_lossy(recording_->is_lossy());
  }
  region_.complete_forward(/*will_run_again=*/!slots_.empty(), is_kept());
  region_.once.finish(/*will_run_again=*/!slots_.empty());
  if (counts) {
    delta.bytes_unsaved += is_first_run ? region_.once.unsaved_bytes(is_saved) : 0;
    count(region_.options.name, delta);
  }
  drops_.reset();
  region_.inputs.release(is_released, [this] { return label(); });
  offload_storages(counts);
}

// A plan predicts what regions hold, and regions that offload their inputs say where these are.
void Frame::watch_inputs() {
  if (region_listener() == nullptr && !region_.options.offload_inputs &&
      region_.options.determinism_check != DeterminismCheck::Values) {
    region_.inputs.for_each_releasable(
        [this](const auto* storage) { region_.reads.inputs.watch(storage); });
  }
}

bool Frame::will_release(const c10::StorageImpl* input) const {
  return !slots_.empty() && !region_.tensor_log.has_sets_or_backward() &&
         !region_.write_log.has_any_write(input) &&
         region_.reads.inputs.is_unread(input, stops_early_at(slots_.size() - 1));
}

bool Frame::stops_early_at(size_t slot) const {
  // Inside the region's own forward, what follows has not been done yet and must not be.
  return (!forward_complete_ || region_.early_stop_in_scope.value_or(region_.options.early_stop)) &&
         !(ends_with_last_slot_ && slot + 1 == slots_.size()) && !is_saved_with_custom_result(slot);
}

/// Note [Custom functions save undisturbed]
/// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
/// The tensors that torch::autograd::Function::forward passes to save_for_backward are held by its
/// node until all of them are saved. If one is a result, which refers to the node, an exception in
/// between would leave a reference cycle that is never freed. So a recompute does not stop inside
/// such a node, but at the first save after it.
bool Frame::is_saved_with_custom_result(size_t slot) const {
  const auto node = slots_[slot].sequence_number;
  size_t first = slot;
  while (first > 0 && slots_[first - 1].sequence_number == node) {
    --first;
  }
  for (size_t i = first; i < slots_.size() && slots_[i].sequence_number == node; ++i) {
    if (slots_[i].is_custom_result) {
      return true;
    }
  }
  return false;
}

void Frame::check_not_modified(const Slot& slot) const {
  const auto current = slot.version_counter.current_version();
  if (current == slot.version) [[likely]] {
    return;
  }
  throw CheckpointError(
      c10::str("[reprise] one of the variables needed for gradient computation has been "
               "modified by an inplace operation: tensor #",
               slot.index,
               " saved in ",
               label(),
               " by ",
               op_of(slot),
               ", ",
               slot.dtype,
               " ",
               c10::IntArrayRef(slot.sizes),
               ", is at version ",
               current,
               "; expected version ",
               slot.version,
               ". Use the out-of-place operator, or change a clone."));
}

/// Autograd refers to such a tensor by itself, and would compute gradients from the new data; a
/// recompute saves the data that the operator read.
void Frame::before_set(const at::Tensor& target) {
  const auto* impl = target.unsafeGetTensorImpl();
  const bool is_saved = !slots_.all([&](const Slot& slot) {
    // A saved tensor may be gone, and the target have its address.
    return slot.tensor != impl || !is_same_counter(slot.version_counter, impl->version_counter());
  });
  if (is_saved) {
    throw CheckpointError(c10::str(
        "[reprise] ",
        label(),
        " gives a tensor other data or sizes (set_data, t_) after an operator has saved it for "
        "backward. Do it before that operator, or outside of the region."));
  }
  region_.tensor_log.before_set(target);
}

std::string Frame::op_of(const Slot& slot) const {
  const auto* nodes = torch::autograd::get_current_graph_task_nodes_in_graph();
  if (nodes != nullptr) {
    for (const auto* node : *nodes) {
      if (node->sequence_nr() == slot.sequence_number && node->thread_id() == forward_thread_) {
        return node->name();
      }
    }
  }
  return "an operator outside of this backward call";
}

Frame::Recomputed& Frame::recomputed_for(TaskKey task) {
  for (auto& entry : recomputed_) {
    if (entry.task == task) {
      return entry;
    }
  }
  return recomputed_.emplace_back(Recomputed{task, {}});
}

void Frame::forget(TaskKey task) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(recomputed_, [task](const Recomputed& entry) { return entry.task == task; });
  if (offload_group_) {
    offload_group_->release();
  }
}

at::Tensor Frame::unpack(const Slot& slot) {
  check_not_modified(slot);
  const TaskKey task = current_task();
  const std::scoped_lock lock(mutex_);
  if (is_recomputing_) {
    throw CheckpointError(
        c10::str("[reprise] the recompute of ",
                 label(),
                 " needs a tensor that only this recompute can give. The region runs a "
                 "backward call over its own forward graph: return the tensors instead of "
                 "storing them outside of the region."));
  }
  auto& mine = recomputed_for(task);
  const bool is_first = mine.tensors.empty();
  if (is_first) {
    recompute(mine, std::nullopt);
    if (task != 0) {
      release_at_task_end(task, weak_from_this());
    }
  } else if (slot.index >= mine.tensors.size() || !mine.tensors[slot.index].defined()) {
    // Already unpacked in this task. Rare: a custom function that unpacks twice.
    recompute(mine, slot.index);
  }
  // Moved out, so that as in plain autograd the tensor is freed with the node that uses it.
  auto tensor = std::move(mine.tensors[slot.index]);
  if (task == 0) {
    // Unpacked outside of a backward call: nothing would release the rest.
    forget(task);
  }
  return tensor;
}

}  // namespace reprise::detail
