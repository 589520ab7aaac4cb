// Observes the effects of operators: kernels on kWriteKey notify this thread's listeners and
// redispatch. See Note [Two dispatch keys].
#include "checkpoint/hot_thread_local.h"
#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/ops/op_effects.h"
#include "checkpoint/ops/op_observer.h"
#include "checkpoint/ops/operator_watch.h"
#include "checkpoint/state/draw_log.h"
#include "checkpoint/state/once_log.h"
#include "checkpoint/state/read_log.h"
#include "checkpoint/state/write_listener.h"

#include <reprise/options.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_ops.h>
#include <ATen/ops/empty_strided_ops.h>
#include <c10/util/SmallVector.h>
#include <torch/library.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace reprise::detail {
namespace {

REPRISE_HOT_THREAD_LOCAL WriteListener* top_listener = nullptr;

// Only compared, never dereferenced. No storage from outside of a region can have the address of
// one allocated inside it, even after that was freed; a new listener resets it.
REPRISE_HOT_THREAD_LOCAL const c10::StorageImpl* just_made = nullptr;

/// All of them since the outermost listener was added.
std::vector<const c10::StorageImpl*>& made_on_this_thread() {
  thread_local std::vector<const c10::StorageImpl*> made;
  return made;
}

template <class Visit>
void for_each_tensor_in(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorList()) {
      visit(tensor);
    }
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
      if (tensor) {
        visit(*tensor);
      }
    }
  }
}

c10::SmallVector<at::Tensor, 4> tensors_at(const std::vector<size_t>& indices,
                                           c10::ArrayRef<c10::IValue> values) {
  c10::SmallVector<at::Tensor, 4> tensors;
  for (const size_t index : indices) {
    for_each_tensor_in(values[index], [&tensors](const at::Tensor& tensor) {
      if (tensor.defined()) {
        tensors.push_back(tensor);
      }
    });
  }
  return tensors;
}

}  // namespace

[[noreturn]] static void refuse_unclear(const c10::OperatorHandle& op) {
  throw CheckpointError(c10::str(
      "[reprise] ",
      op.schema().name(),
      " runs in a region and returns nothing, and its schema (",
      op.schema(),
      "), which LibTorch inferred from a C++ function, does not say whether it writes an argument. "
      "If it does, declare it: m.def(\"...(Tensor(a!) out) -> ()\"). If it has another effect, "
      "such "
      "as logging, that must happen once: reprise::register_effectful_op(\"",
      op.schema().name(),
      "\")."));
}

/// Runs on kWriteKey.
struct WriteDispatch {
  /// Who calls the operator.
  enum class Caller : uint8_t {
    Program,
    Kernel,  ///< of another operator, below autograd
  };

  static Caller caller() {
    // Kernels run with the program's grad mode. Custom functions turn it off and often exclude the
    // same keys; what they write is the program's.
    const bool is_custom_function =
        top_listener != nullptr && top_listener->has_grad_mode_ && !at::GradMode::is_enabled();
    return is_below_autograd() && !is_custom_function ? Caller::Kernel : Caller::Program;
  }

  static void call(const c10::OperatorHandle& op,
                   c10::DispatchKeySet keys,
                   torch::jit::Stack* stack) {
    const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kWriteKey);
    const auto& effects = op_effects(op);
    if (effects.runs_once) {
      run_once(op, below, stack);
      return;
    }
    if (top_listener == nullptr) {
      run(op, effects, below, stack);
      return;
    }
    if (effects.is_unclear) {
      refuse_unclear(op);
    }
    const auto values =
        c10::ArrayRef<c10::IValue>(*stack).slice(stack->size() - op.schema().arguments().size());
    const auto targets = tensors_at(effects.written, values);
    if (ReadGuard::notes()) {
      for (const size_t index : effects.read) {
        for_each_tensor_in(values[index], ReadGuard::note);
      }
      for (const size_t index : effects.taken) {
        for_each_tensor_in(values[index], ReadGuard::note_input);
      }
    }
    if (caller() == Caller::Kernel) {
      for (const auto& target : targets) {
        for_each_listener([&](WriteListener& listener) { listener.before_kernel_write(target); });
      }
      run(op, effects, below, stack);
      return;
    }
    if (effects.written.empty()) {
      run(op, effects, below, stack);
      return;
    }
    for (const auto& target : targets) {
      for_each_listener([&](WriteListener& listener) {
        if (effects.sets) {
          listener.before_set(target);
        }
        if (effects.writes) {
          listener.before_write(target);
        }
      });
    }
    {
      const WriteInFlight write(targets);
      run(op, effects, below, stack);
    }
    for_each_listener([](WriteListener& listener) { listener.after_write(); });
  }

  static void run(const c10::OperatorHandle& op,
                  const OpEffects& effects,
                  c10::DispatchKeySet below,
                  torch::jit::Stack* stack) {
    if (effects.draws) {
      run_drawing(op, below, stack, effects.generator);
    } else {
      op.redispatchBoxed(below, stack);
    }
  }

  template <class Visit>
  static void for_each_listener(const Visit& visit) {
    for (auto* listener = top_listener; listener != nullptr; listener = listener->outer_) {
      visit(*listener);
    }
  }
};

namespace {

/// Every factory function calls empty or empty_strided.
at::Tensor note_made(at::Tensor tensor) {
  if (top_listener != nullptr && tensor.has_storage()) {
    just_made = tensor.storage().unsafeGetStorageImpl();
    made_on_this_thread().push_back(just_made);
    // A custom function's forward: its kernels may read memory directly.
    if (!at::GradMode::is_enabled() && ReadGuard::notes()) {
      ReadGuard::note_hidden_reads();
    }
  }
  return tensor;
}

constexpr c10::DispatchKeySet kBelowWrites(c10::DispatchKeySet::FULL_AFTER, kWriteKey);

at::Tensor note_empty(c10::DispatchKeySet keys,
                      c10::SymIntArrayRef size,
                      std::optional<at::ScalarType> dtype,
                      std::optional<at::Layout> layout,
                      std::optional<at::Device> device,
                      std::optional<bool> pin_memory,
                      std::optional<at::MemoryFormat> memory_format) {
  return note_made(at::_ops::empty_memory_format::redispatch(
      keys & kBelowWrites, size, dtype, layout, device, pin_memory, memory_format));
}

at::Tensor note_empty_strided(c10::DispatchKeySet keys,
                              c10::SymIntArrayRef size,
                              c10::SymIntArrayRef stride,
                              std::optional<at::ScalarType> dtype,
                              std::optional<at::Layout> layout,
                              std::optional<at::Device> device,
                              std::optional<bool> pin_memory) {
  return note_made(at::_ops::empty_strided::redispatch(
      keys & kBelowWrites, size, stride, dtype, layout, device, pin_memory));
}

OperatorWatch& effect_kernels() {
  static auto* watch = new OperatorWatch();  // allow: owning-new
  return *watch;
}

/// Empty if another library has a fallback for the key.
const std::optional<c10::RegistrationHandleRAII>& write_fallback() {
  static const auto* handle = new auto(register_fallback(  // allow: owning-new
      kWriteKey,
      c10::KernelFunction::makeFallthrough()));
  return *handle;
}

[[maybe_unused]] const bool kWriteFallbackAtLoad = write_fallback().has_value();

}  // namespace

void observe_effects() {
  if (!write_fallback()) {
    throw CheckpointError(
        c10::str("[reprise] another library uses the dispatch key ",
                 kWriteKey,
                 ", through which regions observe operators. Regions cannot work beside it: do not "
                 "load both into one process."));
  }
  observe_recorded_operators();
  effect_kernels().update([](const c10::OperatorHandle& op) {
    if (!op.hasKernelForDispatchKey(kWriteKey) && OpEffects(op).is_of_interest()) {
      effect_kernels().register_kernel(
          op, kWriteKey, c10::KernelFunction::makeFromBoxedFunction<&WriteDispatch::call>());
    }
  });
}

void observe_more_effects() {
  effect_kernels().look_again();
}

bool has_write_listener() {
  return top_listener != nullptr;
}

bool is_in_region() {
  bool is_inside = false;
  WriteDispatch::for_each_listener(
      [&](const WriteListener& listener) { is_inside = is_inside || listener.is_of_region(); });
  return is_inside;
}

uint64_t notify_backward(const torch::autograd::edge_list& roots, bool accumulates) {
  uint64_t limit = kNoHookLimit;
  WriteDispatch::for_each_listener(
      [&](WriteListener& listener) { limit = std::min(limit, listener.hook_limit()); });
  WriteDispatch::for_each_listener([&](WriteListener& listener) {
    listener.before_backward(std::min(limit, last_hook()));
    if (accumulates) {
      listener.before_accumulation(roots);
    }
  });
  return limit;
}

void notify_set(const at::Tensor& target) {
  WriteDispatch::for_each_listener([&](WriteListener& listener) { listener.before_set(target); });
}

void notify_run_to_end() {
  WriteDispatch::for_each_listener([](WriteListener& listener) { listener.run_to_end(); });
}

bool hooks_were_added(const at::Tensor& tensor) {
  bool were_added = false;
  WriteDispatch::for_each_listener([&](WriteListener& listener) {
    were_added = were_added || listener.adds_hooks_again(tensor);
  });
  return were_added;
}

unsigned add_hook(const at::Tensor& tensor, const std::function<unsigned()>& add) {
  std::optional<unsigned> number;
  WriteDispatch::for_each_listener([&](WriteListener& listener) {
    if (!number && listener.adds_hooks_again(tensor)) {
      number = listener.next_hook(tensor);
    }
  });
  const unsigned added = number ? *number : add();
  WriteDispatch::for_each_listener(
      [&](WriteListener& listener) { listener.hook_added(tensor, added); });
  return added;
}

REPRISE_HOT_THREAD_LOCAL WriteInFlight* WriteInFlight::innermost = nullptr;

bool WriteInFlight::is_in_one(const at::Tensor& tensor) {
  for (const auto* write = innermost; write != nullptr; write = write->outer) {
    for (const auto& target : write->targets) {
      if (tensor.has_storage() && target.has_storage() &&
          target.storage().is_alias_of(tensor.storage())) {
        return true;
      }
    }
  }
  return false;
}

bool was_just_made(const c10::StorageImpl* storage) {
  return storage == just_made;
}

size_t storages_made() {
  return made_on_this_thread().size();
}

bool was_made_since(size_t before, const c10::StorageImpl* storage) {
  const auto& made = made_on_this_thread();
  const auto end = made.rend() - static_cast<std::ptrdiff_t>(std::min(before, made.size()));
  return std::find(made.rbegin(), end, storage) != end;  // mostly one of the last
}

WriteListenerGuard::WriteListenerGuard(WriteListener* listener, Others others)
    : previous_(top_listener) {
  just_made = nullptr;
  if (listener != nullptr) {
    listener->outer_ = others == Others::Listen ? previous_ : nullptr;
  }
  top_listener = listener;
}

WriteListenerGuard::~WriteListenerGuard() {
  top_listener = previous_;
  if (previous_ == nullptr) {
    made_on_this_thread().clear();
  }
}

}  // namespace reprise::detail

TORCH_LIBRARY_IMPL(aten, DeferredInit, m) {
  m.impl("empty.memory_format", TORCH_FN(reprise::detail::note_empty));
  m.impl("empty_strided", TORCH_FN(reprise::detail::note_empty_strided));
}
