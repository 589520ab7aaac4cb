#include "checkpoint/ops/operator_watch.h"

#include <memory>
#include <optional>
#include <utility>

namespace reprise::detail {
namespace {

/// The dispatcher calls it with its lock held, so it only counts.
class LateOperators final : public c10::OpRegistrationListener {
 public:
  explicit LateOperators(std::atomic<uint64_t>& found) : found_(found) {}
  void onOperatorRegistered(const c10::OperatorHandle&) override {
    found_.fetch_add(1, std::memory_order_acq_rel);
  }
  void onOperatorDeregistered(const c10::OperatorHandle&) override {}

 private:
  std::atomic<uint64_t>& found_;
};

}  // namespace

OperatorWatch::OperatorWatch()
    : listening_(c10::Dispatcher::singleton().addRegistrationListener(
          std::make_unique<LateOperators>(found_operators_))) {}

void OperatorWatch::update(const std::function<void(const c10::OperatorHandle&)>& add) {
  if (is_up_to_date()) {
    return;
  }
  const std::scoped_lock lock(mutex_);
  if (is_up_to_date()) {
    return;
  }
  const uint64_t found = found_operators_.load(std::memory_order_acquire);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (op && op->hasSchema()) {
      add(*op);
    }
  }
  // Last: a region that begins on another thread meanwhile has to wait.
  observed_.store(found, std::memory_order_release);
}

void OperatorWatch::register_kernel(const c10::OperatorHandle& op,
                                    c10::DispatchKey key,
                                    c10::KernelFunction kernel) {
  kernels_.push_back(c10::Dispatcher::singleton().registerImpl(op.operator_name(),
                                                               key,
                                                               std::move(kernel),
                                                               std::nullopt,
                                                               nullptr,
                                                               "reprise: observes operators"));
}

std::optional<c10::RegistrationHandleRAII> register_fallback(c10::DispatchKey key,
                                                             c10::KernelFunction kernel) {
  auto& dispatcher = c10::Dispatcher::singleton();
  if (dispatcher.hasBackendFallbackForDispatchKey(key)) {
    return std::nullopt;
  }
  return dispatcher.registerFallback(key, std::move(kernel), "reprise: observes operators");
}

}  // namespace reprise::detail
