#include "checkpoint/ops/op_observer.h"

#include "checkpoint/hot_thread_local.h"
#include "checkpoint/live_tensors.h"
#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/ops/op_info.h"
#include "checkpoint/ops/operator_watch.h"
#include "checkpoint/torch_versions.h"

#include <ATen/core/boxing/OperatorKernel.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>

namespace reprise::detail {
namespace {

REPRISE_HOT_THREAD_LOCAL OpObserver* top_observer = nullptr;

bool has_fake(c10::ArrayRef<c10::IValue> arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const c10::IValue& argument) {
    if (argument.isTensor()) {
      return is_fake(argument.toTensor());
    }
    if (argument.isTensorList()) {
      const auto list = argument.toTensorList();
      return std::any_of(
          list.begin(), list.end(), [](const at::Tensor& one) { return is_fake(one); });
    }
    return false;
  });
}

/// Whether regions have included the key, on this thread or on the one whose state it inherited.
/// They never do so without the other key.
bool is_included_by_regions() {
  return c10::impl::tls_local_dispatch_key_set().included_.has(kWriteKey) && !is_fake_mode_on();
}

void run_observed(const c10::OperatorHandle& op,
                  c10::DispatchKeySet below,
                  torch::jit::Stack* stack) {
  if (top_observer == nullptr) {
    // Another thread, which inherits the key, or one that only notes what is alive.
    op.redispatchBoxed(below, stack);
  } else {
    top_observer->call(op, below, stack);
  }
}

/// What the key does to an operator. See Note [Fake tensors].
class Observe final : public c10::OperatorKernel {
 public:
  Observe() = default;
  /// `others`: what would run if we were not there.
  explicit Observe(c10::SafeKernelFunction others) : others_(std::move(others)) {}

  void operator()(const c10::OperatorHandle& op,
                  c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) const {
    if (!is_included_by_regions() || has_fake(arguments_of(op, *stack))) {
      pass_on(op, keys, stack);
      return;
    }
    const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kRecordKey);
    // Operators called inside a kernel belong to the call observed here.
    const c10::impl::ExcludeDispatchKeyGuard inner_calls(kRecordKey);
    const auto& live = live_tensors();
    if (live == nullptr) {
      run_observed(op, below, stack);
      return;
    }
    try {
      run_observed(op, below, stack);
    } catch (c10::Error& error) {
      // Here, where all that the program holds is still alive.
      if (is_out_of_memory(error)) {
        error.add_context(table_of(live->groups(), /*lines=*/16));
      }
      throw;
    }
    live->made(op, *stack);
  }

 private:
  void pass_on(const c10::OperatorHandle& op,
               c10::DispatchKeySet keys,
               torch::jit::Stack* stack) const {
    if (!others_) {
      TORCH_CHECK_NOT_IMPLEMENTED(false,
                                  "Could not run '",
                                  display_name(op),
                                  "' with arguments from the '",
                                  kRecordKey,
                                  "' backend: LibTorch has no kernels for fake tensors.");
    } else if (is_fallthrough(*others_)) {
      op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kRecordKey),
                         stack);
    } else {
      others_->callBoxed(op, keys, stack);
    }
  }

  std::optional<c10::SafeKernelFunction> others_;
};

/// Our fallback, or where another library has one, a kernel for every operator. Operators with a
/// kernel of their own for the key get one in any case.
class RecordKernels {
 public:
  void update() {
    watch_.update([this](const c10::OperatorHandle& op) {
      const bool is_hidden = !fallback_ || op.hasKernelForDispatchKey(kRecordKey);
      if (is_hidden && seen_.insert(op.operator_name()).second) {
        watch_.register_kernel(op, kRecordKey, kernel_for(op));
      }
    });
  }

 private:
  static c10::KernelFunction kernel_for(const c10::OperatorHandle& op) {
    return c10::KernelFunction::makeFromBoxedFunctor(
        op.hasComputedKernelForDispatchKey(kRecordKey)
            ? std::make_unique<Observe>(op.getComputedKernelForDispatchKey(kRecordKey))
            : std::make_unique<Observe>());
  }

  const std::optional<c10::RegistrationHandleRAII> fallback_ = register_fallback(
      kRecordKey, c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<Observe>()));
  OperatorWatch watch_;
  std::unordered_set<c10::OperatorName> seen_;
};

RecordKernels& record_kernels() {
  static auto* kernels = new RecordKernels();  // allow: owning-new
  return *kernels;
}

/// Before another library takes the key.
[[maybe_unused]] const bool kRecordKernelsAtLoad = (record_kernels(), true);

}  // namespace

void observe_recorded_operators() {
  record_kernels().update();
}

OpObserverGuard::OpObserverGuard(OpObserver* observer)
    : previous_(std::exchange(top_observer, observer)),
      was_included_(c10::impl::tls_is_dispatch_key_included(kRecordKey)) {
  c10::impl::tls_set_dispatch_key_included(kRecordKey,
                                           observer != nullptr || live_tensors() != nullptr);
}

OpObserverGuard::~OpObserverGuard() {
  c10::impl::tls_set_dispatch_key_included(kRecordKey, was_included_);
  top_observer = previous_;
}

bool OpObserverGuard::has_observer() {
  return top_observer != nullptr;
}

}  // namespace reprise::detail
