// Observes operators that write their arguments: kernels on kWriteKey notify this thread's
// listeners and redispatch. See Note [Two dispatch keys].
#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/state/write_log.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_ops.h>
#include <ATen/ops/empty_strided_ops.h>
#include <c10/util/SmallVector.h>
#include <c10/util/flat_hash_map.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::detail {
namespace {

thread_local WriteListener* top_listener = nullptr;

// Only compared, never dereferenced. No storage from outside of a region can have the address of
// one allocated inside it, even after that was freed; a new listener resets it.
thread_local const c10::StorageImpl* just_made = nullptr;

/// Operators that write arguments without declaring it in their schema.
constexpr std::array<std::string_view, 6> kUnmarkedWriters{
    "aten::native_batch_norm",
    "aten::cudnn_batch_norm",
    "aten::miopen_batch_norm",
    "aten::batch_norm_gather_stats",
    "aten::batch_norm_gather_stats_with_counts",
    "aten::batch_norm_update_stats"};

template <size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The arguments that an operator writes.
struct WrittenArguments {
  explicit WrittenArguments(const c10::FunctionSchema& schema) {
    const bool is_unmarked = contains(kUnmarkedWriters, schema.name());
    const auto& arguments = schema.arguments();
    for (size_t i = 0; i < arguments.size(); ++i) {
      const auto& name = arguments[i].name();
      const bool is_marked =
          arguments[i].alias_info() != nullptr && arguments[i].alias_info()->isWrite();
      if (is_marked || (is_unmarked && (name == "running_mean" || name == "running_var"))) {
        indices.push_back(i);
      }
    }
  }

  std::vector<size_t> indices;
};

/// A write in progress on this thread. They form a stack.
struct WriteInFlight {
  explicit WriteInFlight(c10::ArrayRef<at::Tensor> written);
  ~WriteInFlight();
  WriteInFlight(const WriteInFlight&) = delete;
  WriteInFlight& operator=(const WriteInFlight&) = delete;

  c10::ArrayRef<at::Tensor> targets;
  WriteInFlight* outer;
};

thread_local WriteInFlight* in_flight = nullptr;

WriteInFlight::WriteInFlight(c10::ArrayRef<at::Tensor> written)
    : targets(written), outer(std::exchange(in_flight, this)) {}

WriteInFlight::~WriteInFlight() {
  in_flight = outer;
}

c10::SmallVector<at::Tensor, 4> written_tensors(const WrittenArguments& arguments,
                                                c10::ArrayRef<c10::IValue> values) {
  c10::SmallVector<at::Tensor, 4> tensors;
  const auto add = [&tensors](const at::Tensor& tensor) {
    if (tensor.defined() && tensor.has_storage() && !tensor.is_inference()) {
      tensors.push_back(tensor);
    }
  };
  for (const size_t index : arguments.indices) {
    const auto& value = values[index];
    if (value.isTensor()) {
      add(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorList()) {
        add(tensor);
      }
    }
  }
  return tensors;
}

const WrittenArguments& written_arguments(const c10::OperatorHandle& op) {
  thread_local ska::flat_hash_map<const void*, std::unique_ptr<WrittenArguments>> cache;
  auto& entry = cache[&op.schema()];
  if (!entry) {
    entry = std::make_unique<WrittenArguments>(op.schema());
  }
  return *entry;
}

}  // namespace

/// Runs on kWriteKey.
struct WriteDispatch {
  static void call(const c10::OperatorHandle& op,
                   c10::DispatchKeySet keys,
                   torch::jit::Stack* stack) {
    const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kWriteKey);
    // Ignore writes inside kernels, which are not the program's: autograd's kernels exclude this
    // key.
    const bool is_inside_kernel =
        c10::impl::tls_local_dispatch_key_set().excluded_.has(c10::DispatchKey::ADInplaceOrView);
    if (top_listener == nullptr || is_inside_kernel) {
      op.redispatchBoxed(below, stack);
      return;
    }
    const auto& arguments = written_arguments(op);
    const auto values =
        c10::ArrayRef<c10::IValue>(*stack).slice(stack->size() - op.schema().arguments().size());
    const auto targets = written_tensors(arguments, values);
    for (const auto& target : targets) {
      for (auto* listener = top_listener; listener != nullptr; listener = listener->outer_) {
        listener->before_write(target);
      }
    }
    {
      const WriteInFlight write(targets);
      op.redispatchBoxed(below, stack);
    }
    for (auto* listener = top_listener; listener != nullptr; listener = listener->outer_) {
      listener->after_write();
    }
  }
};

namespace {

/// Every factory function calls empty or empty_strided.
at::Tensor note_made(at::Tensor tensor) {
  if (top_listener != nullptr && tensor.has_storage()) {
    just_made = tensor.storage().unsafeGetStorageImpl();
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

/// Notified of operators that other libraries register later. The dispatcher calls it with its lock
/// held, so it only sets a flag; the next region registers the kernels.
class LateOperators final : public c10::OpRegistrationListener {
 public:
  explicit LateOperators(std::atomic<bool>& found) : found_(found) {}
  void onOperatorRegistered(const c10::OperatorHandle&) override {
    found_.store(true, std::memory_order_release);
  }
  void onOperatorDeregistered(const c10::OperatorHandle&) override {}

 private:
  std::atomic<bool>& found_;
};

class WriteKernels {
 public:
  WriteKernels()
      : listening_(c10::Dispatcher::singleton().addRegistrationListener(
            std::make_unique<LateOperators>(found_operators_))) {}

  void update() {
    if (!found_operators_.load(std::memory_order_acquire)) {
      return;
    }
    const std::scoped_lock lock(mutex_);
    if (!found_operators_.exchange(false)) {
      return;
    }
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const auto& name : dispatcher.getAllOpNames()) {
      const auto op = dispatcher.findOp(name);
      if (!op || !op->hasSchema() || op->hasKernelForDispatchKey(kWriteKey) ||
          WrittenArguments(op->schema()).indices.empty()) {
        continue;
      }
      kernels_.push_back(dispatcher.registerImpl(
          name,
          kWriteKey,
          c10::KernelFunction::makeFromBoxedFunction<&WriteDispatch::call>(),
          std::nullopt,
          nullptr,
          "reprise: observes writes"));
    }
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> found_operators_{true};
  c10::RegistrationHandleRAII listening_;
  std::vector<c10::RegistrationHandleRAII> kernels_;
};

}  // namespace

void observe_writes() {
  // Never destroyed: at exit, operators may be gone before their kernels are unregistered.
  static auto* kernels = new WriteKernels();  // allow: owning-new
  kernels->update();
}

bool is_about_to_be_written(const at::Tensor& tensor) {
  for (const auto* write = in_flight; write != nullptr; write = write->outer) {
    for (const auto& target : write->targets) {
      if (tensor.has_storage() && target.storage().is_alias_of(tensor.storage())) {
        return true;
      }
    }
  }
  return false;
}

bool was_just_made(const c10::StorageImpl* storage) {
  return storage == just_made;
}

WriteListenerGuard::WriteListenerGuard(WriteListener* listener, Others others)
    : previous_(top_listener) {
  just_made = nullptr;
  listener->outer_ = others == Others::Listen ? previous_ : nullptr;
  top_listener = listener;
}

WriteListenerGuard::~WriteListenerGuard() {
  top_listener = previous_;
}

}  // namespace reprise::detail

TORCH_LIBRARY_IMPL(_, DeferredInit, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, DeferredInit, m) {
  m.impl("empty.memory_format", TORCH_FN(reprise::detail::note_empty));
  m.impl("empty_strided", TORCH_FN(reprise::detail::note_empty_strided));
}
