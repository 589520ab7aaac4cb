#include "checkpoint/state/once_log.h"

#include "checkpoint/ops/op_info.h"

#include <reprise/options.h>

#include <algorithm>
#include <set>
#include <utility>

namespace reprise::detail {
namespace {

/// The results on top of the stack, without those that are arguments, which a log must not hold.
torch::jit::Stack results_without(const std::vector<std::optional<size_t>>& arguments,
                                  const torch::jit::Stack& stack) {
  torch::jit::Stack results(stack.end() - static_cast<std::ptrdiff_t>(arguments.size()),
                            stack.end());
  for (size_t i = 0; i < results.size(); ++i) {
    if (arguments[i]) {
      results[i] = c10::IValue();
    } else if (results[i].isList() && !results[i].isTensorList()) {
      results[i] = results[i].deepcopy();  // the program may change its own
    }
  }
  return results;
}

std::vector<std::optional<size_t>> find_arguments(const c10::OperatorHandle& op,
                                                  c10::ArrayRef<c10::IValue> arguments,
                                                  const torch::jit::Stack& stack) {
  std::vector<std::optional<size_t>> found(op.schema().returns().size());
  for (size_t i = 0; i < found.size(); ++i) {
    const auto& result = stack[stack.size() - found.size() + i];
    for (size_t j = 0; result.isTensor() && j < arguments.size(); ++j) {
      if (arguments[j].isTensor() && result.toTensor().defined() &&
          arguments[j].toTensor().is_same(result.toTensor())) {
        found[i] = j;
      }
    }
  }
  return found;
}

}  // namespace

OnceCall::OnceCall(const c10::OperatorHandle& called,
                   c10::ArrayRef<c10::IValue> arguments,
                   const torch::jit::Stack& stack)
    : op(op_id(called)),
      kept(called, results_without(find_arguments(called, arguments, stack), stack)),
      arguments_(find_arguments(called, arguments, stack)) {
  const auto check = [&](const at::Tensor& argument) {
    if (argument.defined() && argument.has_storage() && kept.shares(argument.storage())) {
      throw CheckpointError(
          c10::str("[reprise] the effectful operator ",
                   display_name(called),
                   " returns a tensor that shares memory with one of its arguments, so that the "
                   "result cannot be kept. Return the argument itself, a copy, or nothing."));
    }
  };
  for (const auto& argument : arguments) {
    if (argument.isTensor()) {
      check(argument.toTensor());
    } else if (argument.isTensorList()) {
      for (const at::Tensor& one : argument.toTensorList()) {
        check(one);
      }
    }
  }
}

void OnceCall::replay(const c10::OperatorHandle& called, torch::jit::Stack& stack) const {
  if (!kept.is_intact()) {
    throw CheckpointError(
        c10::str("[reprise] the kept result of the effectful operator ",
                 display_name(called),
                 " was changed in place while its region ran on another thread."));
  }
  torch::jit::Stack results;
  kept.push_to(results, /*group=*/nullptr);
  const size_t first = stack.size() - called.schema().arguments().size();
  for (size_t i = 0; i < results.size(); ++i) {
    if (arguments_[i]) {
      results[i] = stack[first + *arguments_[i]];
    }
  }
  torch::jit::drop(stack, called.schema().arguments().size());
  stack.insert(stack.end(), results.begin(), results.end());
}

void OnceLog::preserve(const c10::Storage& written) {
  std::optional<c10::Storage> copy;
  for (auto& call : calls_) {
    call.kept.move_out_of(written, copy);
  }
}

bool OnceLog::holds(const c10::StorageImpl* storage) const {
  return std::any_of(calls_.begin(), calls_.end(), [storage](const OnceCall& call) {
    return call.kept.version_in(storage) != nullptr;
  });
}

size_t OnceLog::count_in(const c10::Storage& storage) const {
  size_t count = 0;
  for (const auto& call : calls_) {
    count += call.kept.count_in(storage);
  }
  return count;
}

size_t OnceLog::kept_bytes() const {
  return unsaved_bytes([](const c10::StorageImpl*) { return false; });
}

size_t OnceLog::unsaved_bytes(const std::function<bool(const c10::StorageImpl*)>& is_saved) const {
  std::set<const c10::StorageImpl*> seen;
  size_t total = 0;
  for (const auto& call : calls_) {
    call.kept.for_each_storage([&](const c10::Storage& storage) {
      const auto* const impl = storage.unsafeGetStorageImpl();
      total += seen.insert(impl).second && !is_saved(impl) ? storage.nbytes() : 0;
    });
  }
  return total;
}

const OnceCall& OnceReplay::next(const c10::OperatorHandle& op) {
  if (next_ >= log_.size() && at_end) {
    at_end();
  }
  const size_t index = next_++;
  if (index < log_.size() && log_[index].op == op_id(op)) [[likely]] {
    ++replayed_;
    return log_[index];
  }
  if (difference_.empty()) {
    difference_ = c10::str("effectful operator #",
                           index,
                           " is ",
                           display_name(op),
                           index < log_.size() ? ", which was another one in forward"
                                               : ", which did not run in forward");
  }
  // Code of the program may catch it; the recompute reports the difference when it ends.
  throw CheckpointError(c10::str("[reprise] a region did different work when it was recomputed: ",
                                 difference_,
                                 ". It has not run again."));
}

}  // namespace reprise::detail
