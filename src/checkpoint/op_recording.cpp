#include "checkpoint/op_recording.h"

#include "checkpoint/engine_ops.h"
#include "checkpoint/hollow_tensor.h"
#include "checkpoint/storage_bytes.h"

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
      tensors_.push_back({alias_of(tensor, counter), counter.current_version()});
      return tensors_.back().alias;
    }));
  }
}

bool KeptResult::is_intact() const {
  return std::all_of(tensors_.begin(), tensors_.end(), [](const Tensor& tensor) {
    return tensor.alias.unsafeGetTensorImpl()->version_counter().current_version() ==
           tensor.version;
  });
}

void KeptResult::push_to(torch::jit::Stack& stack, Parcel* parcel) const {
  size_t next = 0;
  for (const auto& value : values_) {
    // A new tensor each time: autograd writes its history into it.
    stack.push_back(map_tensors(value, [&](const at::Tensor&) {
      const auto& tensor = tensors_[next++];
      if (tensor.item) {
        return filled(tensor.alias, parcel->take(*tensor.item));
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

void KeptResult::move_to(const c10::Storage& from, const c10::Storage& copy) {
  const EngineOpsGuard guard;
  for (auto& tensor : tensors_) {
    if (tensor.alias.has_storage() && tensor.alias.storage().is_alias_of(from)) {
      auto moved = at::empty({0}, tensor.alias.options());
      moved.set_(copy, tensor.alias.storage_offset(), tensor.alias.sizes(), tensor.alias.strides());
      tensor = {moved, static_cast<uint32_t>(moved._version())};
    }
  }
  refresh_values();
}

void KeptResult::refresh_values() {
  size_t next = 0;
  for (auto& value : values_) {
    value = map_tensors(value, [&](const at::Tensor&) { return tensors_[next++].alias; });
  }
}

bool KeptResult::is_movable(const Tensor& tensor) {
  return !tensor.item && !tensor.compressed && can_be_hollow(tensor.alias);
}

void KeptResult::empty(Tensor& tensor) {
  tensor.alias = hollow(tensor.alias);
  tensor.version = 0;
}

void KeptResult::move_to(const Outgoing& outgoing) {
  for (auto& tensor : tensors_) {
    if (is_movable(tensor) && (tensor.item = outgoing.find(tensor.alias.storage()))) {
      empty(tensor);
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

size_t KeptResult::compress(bool allow_lossy) {
  size_t before = 0;
  for (auto& tensor : tensors_) {
    const auto form = Compressed::form_of(tensor.alias);
    const size_t bytes = tensor.alias.nbytes();
    if (form != Compressed::Form::None && (form == Compressed::Form::Bits || allow_lossy) &&
        bytes >= kSmallestMovedBytes) {
      tensor.compressed.emplace(tensor.alias);
      empty(tensor);
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

void OpRecording::preserve(const at::Tensor& target) {
  const c10::Storage& written = target.storage();
  std::optional<c10::Storage> copy;
  for (auto& [id, calls] : calls_) {
    for (auto& result : calls.results) {
      if (result != nullptr && result->shares(written)) {
        if (!copy) {
          const EngineOpsGuard guard;
          copy = bytes_of(written).clone().storage();
        }
        result->move_to(written, *copy);
      }
    }
  }
}

void OpRecording::verify() const {
  std::vector<KeptOp> kept;
  for (const auto& [id, calls] : calls_) {
    if (calls.keep_decisions > 0) {
      kept.push_back({calls.name, calls.overload, calls.op_class, calls.keep_decisions});
    }
  }
  policy_->verify(kept);
}

void OpRecording::offer(Outgoing& outgoing) const {
  // How many of our tensors hold a storage. If more do, moving it would free nothing.
  std::map<const c10::StorageImpl*, size_t> holders;
  for_each_result([&](const KeptResult& result) {
    if (result.goes_out) {
      result.for_each_movable(
          [&](const c10::Storage& storage) { ++holders[storage.unsafeGetStorageImpl()]; });
    }
  });
  for_each_result([&](const KeptResult& result) {
    if (!result.goes_out) {
      return;
    }
    // Its memory goes back to the stream that made it, and only the current one waits for copies.
    const bool is_of_this_stream = *result.goes_out == current_stream(result.device());
    result.for_each_movable([&](const c10::Storage& storage) {
      // The first tensor of a storage decides for all of them.
      const auto held = std::exchange(holders[storage.unsafeGetStorageImpl()], 0);
      if (held == storage.use_count() && is_of_this_stream) {
        outgoing.add(storage, /*is_shared=*/false);
      } else if (held > 0) {
        outgoing.stay(storage.nbytes());
      }
    });
  });
}

void OpRecording::move_to(const Outgoing& outgoing, std::shared_ptr<Parcel> parcel) {
  parcel_ = std::move(parcel);
  for (auto& [id, calls] : calls_) {
    for (auto& result : calls.results) {
      if (result != nullptr && result->goes_out) {
        result->move_to(outgoing);
      }
    }
  }
}

size_t OpRecording::kept_bytes() const {
  size_t total = 0;
  for_each_result([&total](const KeptResult& result) { total += result.bytes(); });
  return total;
}

size_t OpRecording::compressed_bytes() const {
  size_t total = 0;
  for_each_result([&total](const KeptResult& result) { total += result.compressed_bytes(); });
  return total;
}

}  // namespace reprise::detail
