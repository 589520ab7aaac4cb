// The claims of PyTorch's tests of checkpointing under autocast (test/test_cuda.py) and with
// context_fn (test/test_autograd.py). docs/upstream-tests.md says which test is which.
#include "support/bitwise.h"
#include "support/devices.h"

#include <reprise/reprise.h>

#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

TEST(UpstreamAutocast, SequentialKeepsDtypeAndGradients) {
  for (const auto device : devices()) {
    const auto dtype = device == c10::kCUDA ? at::kHalf : at::kBFloat16;
    torch::manual_seed(5);
    torch::nn::Sequential model(
        torch::nn::Linear(8, 8), torch::nn::Linear(8, 8), torch::nn::Linear(8, 8));
    model->to(device);
    const auto run = [&](const std::function<at::Tensor(const at::Tensor&)>& forward) {
      torch::manual_seed(6);
      const auto input = torch::rand({8, 8}).to(device, dtype).set_requires_grad(true);
      model->zero_grad();
      at::Tensor output;
      {
        const AutocastScope autocast(device, dtype);
        output = forward(input);
      }
      EXPECT_TRUE(output.requires_grad());
      EXPECT_EQ(output.scalar_type(), dtype);
      output.sum().backward();
      std::vector<at::Tensor> gradients{input.grad()};
      for (const auto& parameter : model->parameters()) {
        gradients.push_back(parameter.grad().clone());
      }
      return gradients;
    };
    const auto plain = run([&](const at::Tensor& x) { return model->forward(x); });
    for (const bool use_reentrant : {true, false}) {
      SCOPED_TRACE(use_reentrant);
      expect_bitwise_equal(plain, run([&](const at::Tensor& x) {
                             return checkpoint_sequential(
                                 {.use_reentrant = use_reentrant}, model, 2, x);
                           }));
    }
  }
}

/// The operators that this thread calls in its lifetime.
class UpstreamRecordingMode {
 public:
  explicit UpstreamRecordingMode(std::vector<std::string>& names)
      : handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(&note).scopes({at::RecordScope::FUNCTION}))),
        outer_(std::exchange(into_, &names)) {}
  ~UpstreamRecordingMode() {
    into_ = outer_;
    at::removeCallback(handle_);
  }
  UpstreamRecordingMode(const UpstreamRecordingMode&) = delete;
  UpstreamRecordingMode& operator=(const UpstreamRecordingMode&) = delete;

 private:
  static std::unique_ptr<at::ObserverContext> note(const at::RecordFunction& call) {
    into_->emplace_back(call.name());
    return nullptr;
  }
  static thread_local std::vector<std::string>* into_;

  at::CallbackHandle handle_;
  std::vector<std::string>* outer_;
};
thread_local std::vector<std::string>* UpstreamRecordingMode::into_ = nullptr;

TEST(UpstreamScopes, EachScopeSeesTheOperatorsOfItsRun) {
  using Names = std::vector<std::string>;
  Names names;
  const auto recording = [&names] { return std::make_shared<UpstreamRecordingMode>(names); };
  const auto run = [&](const CheckpointOptions& options) {
    names.clear();
    const auto x = torch::tensor({1.0, 2.0, 3.0}, at::requires_grad());
    checkpoint(
        options, [](const at::Tensor& h) { return h.exp(); }, x)
        .sum()
        .backward();
    return names;
  };
  EXPECT_EQ(run({.forward_scope = recording}), Names{"aten::exp"});
  EXPECT_EQ(run({.recompute_scope = recording}), Names{"aten::exp"});
  // Upstream refuses context_fn with use_reentrant.
  EXPECT_EQ(run({.use_reentrant = true, .forward_scope = recording}), Names{"aten::exp"});
  EXPECT_EQ(run({.use_reentrant = true, .recompute_scope = recording}), Names{"aten::exp"});
}

/// Is up in its lifetime, and notes whether an exception ends it.
class UpstreamActiveScope {
 public:
  explicit UpstreamActiveScope(std::vector<bool>& ends_by_exception) : ends_(ends_by_exception) {
    active = true;
  }
  ~UpstreamActiveScope() {
    active = false;
    ends_.push_back(std::uncaught_exceptions() > 0);
  }
  UpstreamActiveScope(const UpstreamActiveScope&) = delete;
  UpstreamActiveScope& operator=(const UpstreamActiveScope&) = delete;

  static thread_local bool active;

 private:
  std::vector<bool>& ends_;
};
thread_local bool UpstreamActiveScope::active = false;

TEST(UpstreamScopes, AScopeSeesTheExceptionOfForward) {
  for (const bool use_reentrant : {false, true}) {
    std::vector<bool> ends_by_exception;
    const auto scope = [&] { return std::make_shared<UpstreamActiveScope>(ends_by_exception); };
    const auto fails = [](const at::Tensor&) -> at::Tensor {
      EXPECT_TRUE(UpstreamActiveScope::active);
      throw std::out_of_range("forward failed");
    };
    const auto message = message_of<std::out_of_range>([&] {
      checkpoint({.use_reentrant = use_reentrant, .forward_scope = scope},
                 fails,
                 torch::ones({1}, at::requires_grad()));
    });
    EXPECT_EQ(message, "forward failed");
    EXPECT_EQ(ends_by_exception, std::vector<bool>{true});
    EXPECT_FALSE(UpstreamActiveScope::active);
  }
}

}  // namespace
}  // namespace reprise::testing
