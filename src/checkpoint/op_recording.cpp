#include "checkpoint/op_recording.h"

#include "checkpoint/engine_ops.h"
#include "checkpoint/storage_bytes.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <set>

namespace reprise::detail {
namespace {

at::Tensor alias_of(const at::Tensor& tensor, const c10::VariableVersion& version_counter) {
  return at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
      version_counter, /*allow_tensor_metadata_change=*/true));
}

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

void KeptResult::push_to(torch::jit::Stack& stack) const {
  for (const auto& value : values_) {
    stack.push_back(map_tensors(value, [](const at::Tensor& tensor) {
      // A new tensor each time: autograd writes its history into it.
      return alias_of(tensor, tensor.unsafeGetTensorImpl()->version_counter());
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
  // The values hold the same aliases in the same order.
  size_t next = 0;
  for (auto& value : values_) {
    value = map_tensors(value, [&](const at::Tensor&) { return tensors_[next++].alias; });
  }
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

size_t OpRecording::kept_bytes() const {
  size_t total = 0;
  for (const auto& [id, calls] : calls_) {
    for (const auto& result : calls.results) {
      total += result != nullptr ? result->bytes() : 0;
    }
  }
  return total;
}

}  // namespace reprise::detail
