// The claims of PyTorch's tests of checkpointing under autocast (test/test_cuda.py), with
// context_fn (test/test_autograd.py), and of wrapped modules
// (test/distributed/fsdp/test_checkpoint_wrapper.py). docs/upstream-tests.md says which test is
// which.
#include "support/bitwise.h"
#include "support/devices.h"

#include <reprise/reprise.h>

#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
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

torch::nn::Sequential upstream_linears(int64_t width) {
  torch::manual_seed(4);
  torch::nn::Sequential model;
  for (int i = 0; i < 4; ++i) {
    model->push_back(torch::nn::Linear(width, width));
  }
  return model;
}

bool is_upstream_linear(const torch::nn::Module& module) {
  return dynamic_cast<const torch::nn::LinearImpl*>(&module) != nullptr;
}

TEST(UpstreamWrapper, OptionsReachTheRegion) {
  int count = 0;
  const auto counting = [&count]() -> std::shared_ptr<void> {
    ++count;
    return nullptr;
  };
  torch::nn::Sequential model(torch::nn::Linear(1, 1));
  apply_activation_checkpointing(
      model, {.forward_scope = counting, .recompute_scope = counting}, is_upstream_linear);
  model->forward(torch::randn({2, 1})).sum().backward();
  EXPECT_EQ(count, 2);
}

TEST(UpstreamWrapper, TakesThePeakOfACall) {
  const auto peak = [](torch::nn::Sequential model, const auto& forward) {
    const auto x = torch::ones({1000, 64}).requires_grad_();
    const auto step = [&] { forward(x).sum().backward(); };
    step();  // makes the gradients
    const PeakTracker tracker(c10::kCPU);
    step();
    model->zero_grad();
    return tracker.extra();
  };
  for (const bool use_reentrant : {false, true}) {
    const CheckpointOptions options{.use_reentrant = use_reentrant};
    auto wrapped = upstream_linears(64);
    apply_activation_checkpointing(wrapped, options, is_upstream_linear);
    auto called = upstream_linears(64);
    const auto by_hand = [&](at::Tensor x) {
      for (const auto& child : called->children()) {
        const auto layer = std::dynamic_pointer_cast<torch::nn::LinearImpl>(child);
        x = checkpoint(
            options, [layer](const at::Tensor& h) { return layer->forward(h); }, x);
      }
      return x;
    };
    // A tensor has 256000 bytes; malloc rounds small ones.
    const auto of_wrapped = peak(wrapped, [&](const at::Tensor& x) { return wrapped->forward(x); });
    EXPECT_NEAR(static_cast<double>(of_wrapped), static_cast<double>(peak(called, by_hand)), 1000);
  }
}

}  // namespace
}  // namespace reprise::testing
