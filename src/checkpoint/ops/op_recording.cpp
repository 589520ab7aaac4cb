#include "checkpoint/ops/op_recording.h"

#include "checkpoint/offload/placeholder.h"
#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/state/storage_bytes.h"
#include "checkpoint/state/version_counter.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace reprise::detail {
namespace {

/// `value` with every tensor replaced by `replace(tensor)`.
template <class Replace>
c10::IValue map_tensors(const c10::IValue& value, const Replace& replace) {
  if (value.isTensor()) {
    const auto& tensor = value.toTensor();
    return tensor.defined() ? c10::IValue(replace(tensor)) : value;
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorList()) {
      list.push_back(tensor.defined() ? replace(tensor) : tensor);
    }
    return list;
  }
  return value;
}

}  // namespace

KeptResult::KeptResult(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const size_t count = op.schema().returns().size();
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    values_.push_back(map_tensors(stack[i], [&](const at::Tensor& tensor) {
      const auto& counter = tensor.unsafeGetTensorImpl()->version_counter();
      tensors_.push_back({alias_of(tensor, counter), current_version(tensor)});
      return tensors_.back().alias;
    }));
  }
}

bool KeptResult::is_intact() const {
  return std::all_of(tensors_.begin(), tensors_.end(), [](const Tensor& tensor) {
    return current_version(tensor.alias) == tensor.version;
  });
}

void KeptResult::push_to(torch::jit::Stack& stack, OffloadGroup* group) const {
  size_t next = 0;
  for (const auto& value : values_) {
    // A new tensor each time, because autograd sets its history.
    stack.push_back(map_tensors(value, [&](const at::Tensor&) {
      const auto& tensor = tensors_[next++];
      if (tensor.item) {
        return with_storage(tensor.alias, group->take(*tensor.item));
      }
      return tensor.compressed
                 ? tensor.compressed->restore(tensor.alias)
                 : alias_of(tensor.alias, tensor.alias.unsafeGetTensorImpl()->version_counter());
    }));
  }
}

bool KeptResult::shares(const c10::Storage& storage) const {
  return std::any_of(tensors_.begin(), tensors_.end(), [&storage](const Tensor& tensor) {
    return tensor.alias.has_storage() && tensor.alias.storage().is_alias_of(storage);
  });
}

size_t KeptResult::count_in(const c10::Storage& storage) const {
  return static_cast<size_t>(
      std::count_if(tensors_.begin(), tensors_.end(), [&storage](const Tensor& tensor) {
        return tensor.alias.has_storage() && tensor.alias.storage().is_alias_of(storage);
      }));
}

const c10::VariableVersion* KeptResult::version_in(const c10::StorageImpl* storage) const {
  for (const auto& tensor : tensors_) {
    if (tensor.alias.has_storage() && tensor.alias.storage().unsafeGetStorageImpl() == storage) {
      return &tensor.alias.unsafeGetTensorImpl()->version_counter();
    }
  }
  return nullptr;
}

void KeptResult::move_to(const c10::Storage& from, const c10::Storage& copy) {
  for (auto& tensor : tensors_) {
    if (tensor.alias.has_storage() && tensor.alias.storage().is_alias_of(from)) {
      tensor = {with_storage(tensor.alias, copy), 0};
    }
  }
  refresh_values();
}

void KeptResult::move_out_of(const c10::Storage& written, std::optional<c10::Storage>& copy) {
  if (!shares(written)) {
    return;
  }
  if (!copy) {
    const EngineOpsGuard guard;
    copy = bytes_of(written).clone().storage();
  }
  move_to(written, *copy);
}

void KeptResult::refresh_values() {
  size_t next = 0;
  for (auto& value : values_) {
    value = map_tensors(value, [&](const at::Tensor&) { return tensors_[next++].alias; });
  }
}

bool KeptResult::is_movable(const Tensor& tensor) {
  return !tensor.item && !tensor.compressed && supports_placeholder(tensor.alias);
}

void KeptResult::release_storage(Tensor& tensor) {
  tensor.alias = placeholder_for(tensor.alias);
  tensor.version = 0;
}

void KeptResult::move_to(const OffloadCandidates& candidates) {
  for (auto& tensor : tensors_) {
    if (is_movable(tensor) && (tensor.item = candidates.find(tensor.alias.storage()))) {
      release_storage(tensor);
    }
  }
  refresh_values();
}

bool KeptResult::is_compressible(bool allow_lossy) const {
  return std::any_of(tensors_.begin(), tensors_.end(), [allow_lossy](const Tensor& tensor) {
    const auto form = Compressed::form_of(tensor.alias);
    return form == Compressed::Form::Bits || (form == Compressed::Form::Int8 && allow_lossy);
  });
}

bool KeptResult::has_lossy_form() const {
  return std::any_of(tensors_.begin(), tensors_.end(), [](const Tensor& tensor) {
    return Compressed::form_of(tensor.alias) == Compressed::Form::Int8;
  });
}

size_t KeptResult::compress(bool allow_lossy) {
  size_t before = 0;
  for (auto& tensor : tensors_) {
    const auto form = Compressed::form_of(tensor.alias);
    const size_t bytes = tensor.alias.nbytes();
    if (form != Compressed::Form::None && (form == Compressed::Form::Bits || allow_lossy) &&
        bytes >= kSmallestMovedBytes) {
      tensor.compressed.emplace(tensor.alias);
      release_storage(tensor);
      before += bytes;
    }
  }
  refresh_values();
  return before;
}

size_t KeptResult::bytes() const {
  size_t total = 0;
  std::set<const void*> seen;
  for (const auto& tensor : tensors_) {
    if (tensor.alias.has_storage() &&
        seen.insert(tensor.alias.storage().unsafeGetStorageImpl()).second) {
      total += tensor.alias.storage().nbytes();
    }
  }
  return total + compressed_bytes();
}

size_t KeptResult::compressed_bytes() const {
  size_t total = 0;
  for (const auto& tensor : tensors_) {
    total += tensor.compressed ? tensor.compressed->bytes() : 0;
  }
  return total;
}

c10::Device KeptResult::device() const {
  return tensors_.empty() ? c10::Device(c10::kCPU) : tensors_.front().alias.device();
}

void OpRecording::preserve(const c10::Storage& written) {
  std::optional<c10::Storage> copy;
  for (auto& [id, calls] : calls_) {
    for (auto& result : calls.results) {
      if (result != nullptr) {
        result->move_out_of(written, copy);
      }
    }
  }
}

bool OpRecording::holds(const c10::StorageImpl* storage) const {
  bool is_held = false;
  for_each_result(
      [&](const KeptResult& kept) { is_held = is_held || kept.version_in(storage) != nullptr; });
  return is_held;
}

void OpRecording::note_aliases(const c10::OperatorHandle& op,
                               const torch::jit::Stack& stack,
                               bool ties) {
  const auto note = [&](const at::Tensor& result) {
    // A new storage has one owner.
    if (!result.defined() || !result.has_storage() || result.storage().use_count() == 1) {
      return;
    }
    const auto* storage = result.storage().unsafeGetStorageImpl();
    for_each_result([&](const KeptResult& kept) {
      const auto* counter = kept.version_in(storage);
      if (counter != nullptr && ties) {
        result.unsafeGetTensorImpl()->set_version_counter(*counter);
      } else if (counter != nullptr) {
        hidden_aliases_.push_back(result.storage().getWeakStorageImpl());
      }
    });
  };
  for (size_t i = stack.size() - op.schema().returns().size(); i < stack.size(); ++i) {
    if (stack[i].isTensor()) {
      note(stack[i].toTensor());
    } else if (stack[i].isTensorList()) {
      for (const at::Tensor& result : stack[i].toTensorList()) {
        note(result);
      }
    }
  }
}

void OpRecording::detach_hidden() {
  for (const auto& weak : std::exchange(hidden_aliases_, {})) {
    if (auto impl = weak.lock()) {
      const c10::Storage storage(std::move(impl));
      size_t own = 1;
      for_each_result([&](const KeptResult& kept) { own += kept.count_in(storage); });
      if (storage.use_count() > own) {
        preserve(storage);
      }
    }
  }
}

void OpRecording::verify() const {
  std::vector<KeptOp> kept;
  for (const auto& [id, calls] : calls_) {
    if (calls.keep_decisions > 0) {
      kept.push_back(
          {calls.name, calls.overload, calls.op_class, calls.keep_decisions, calls.ranges});
    }
  }
  policy_->verify(kept);
}

void OpRecording::add_candidates(OffloadCandidates& candidates) const {
  // How many kept tensors refer to a storage. If anything else does, moving it would free nothing.
  std::map<const c10::StorageImpl*, size_t> holders;
  for_each_result([&](const KeptResult& result) {
    if (result.offload_stream) {
      result.for_each_movable(
          [&](const c10::Storage& storage) { ++holders[storage.unsafeGetStorageImpl()]; });
    }
  });
  for_each_result([&](const KeptResult& result) {
    if (!result.offload_stream) {
      return;
    }
    // Its memory returns to the stream that it was allocated on, but only the current stream waits
    // for the copy.
    const bool is_of_this_stream = *result.offload_stream == current_stream(result.device());
    result.for_each_movable([&](const c10::Storage& storage) {
      // A storage is added with its first tensor only.
      const auto held = std::exchange(holders[storage.unsafeGetStorageImpl()], 0);
      if (held == storage.use_count() && is_of_this_stream) {
        candidates.add(storage, /*is_shared=*/false);
      } else if (held > 0) {
        candidates.skip(storage.nbytes());
      }
    });
  });
}

void OpRecording::move_to(const OffloadCandidates& candidates,
                          std::shared_ptr<OffloadGroup> group) {
  offload_group_ = std::move(group);
  for (auto& [id, calls] : calls_) {
    for (auto& result : calls.results) {
      if (result != nullptr && result->offload_stream) {
        result->move_to(candidates);
      }
    }
  }
}

size_t OpRecording::kept_bytes() const {
  size_t total = 0;
  for_each_result([&total](const KeptResult& result) { total += result.bytes(); });
  return total;
}

size_t OpRecording::unsaved_bytes(
    const std::function<bool(const c10::StorageImpl*)>& is_saved) const {
  std::set<const c10::StorageImpl*> seen;
  size_t total = compressed_bytes();
  for_each_result([&](const KeptResult& result) {
    result.for_each_storage([&](const c10::Storage& storage) {
      const auto* const impl = storage.unsafeGetStorageImpl();
      total += seen.insert(impl).second && !is_saved(impl) ? storage.nbytes() : 0;
    });
  });
  return total;
}

size_t OpRecording::compressed_bytes() const {
  size_t total = 0;
  for_each_result([&total](const KeptResult& result) { total += result.compressed_bytes(); });
  return total;
}

}  // namespace reprise::detail
