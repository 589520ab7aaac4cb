// The claims of PyTorch's tests of wrapped modules
// (test/distributed/fsdp/test_checkpoint_wrapper.py) and of marked ones
// (test/distributed/_composable/test_checkpoint.py), and of a mask that is an object
// (test/test_autograd.py too). docs/upstream-tests.md says which test is which.
#include "support/bitwise.h"
#include "support/devices.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <utility>

namespace reprise::testing {
namespace {

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

/// A mask as an object: indices of blocks, and the function that it was made from.
struct UpstreamBlockMask {
  at::Tensor counts, indices;
  std::function<at::Tensor(const at::Tensor&, const at::Tensor&)> keeps;
  template <class Visit>
  void for_each_tensor(Visit&& visit) {
    visit(counts);
    visit(indices);
  }
};

struct UpstreamMaskedImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x, const UpstreamBlockMask& mask) {
    const auto rows = mask.indices.unsqueeze(1);
    return (x * mask.keeps(rows, mask.indices)).sin() * mask.counts;
  }
};

TEST(UpstreamWrapper, AMaskOfTensorsAndAFunctionIsAnArgument) {
  for (const auto device : devices()) {
    const auto numbers = torch::arange(8, torch::TensorOptions(device));
    const UpstreamBlockMask mask{
        .counts = numbers + 1,
        .indices = numbers,
        .keeps = [](const at::Tensor& q, const at::Tensor& kv) { return q >= kv; }};
    const auto gradient = [&](const auto& run) {
      const auto x = torch::ones({8, 8}, torch::TensorOptions(device).requires_grad(true));
      return torch::autograd::grad({run(x).sum()}, {x})[0];
    };
    struct Model : torch::nn::Module {
      std::shared_ptr<UpstreamMaskedImpl> masked =
          register_module("masked", std::make_shared<UpstreamMaskedImpl>());
    } model;
    const auto plain =
        gradient([&](const at::Tensor& x) { return model.masked->forward(x, mask); });
    EXPECT_TRUE(bitwise_equal(plain, gradient([&](const at::Tensor& x) {
                                return checkpoint(
                                    &UpstreamMaskedImpl::forward, model.masked, x, mask);
                              })));
    apply_activation_checkpointing(model, {}, [](const torch::nn::Module&) { return true; });
    EXPECT_TRUE(bitwise_equal(
        plain, gradient([&](const at::Tensor& x) { return call(model.masked, x, mask); })));
  }
}

/// One tensor in, two out.
struct UpstreamForkImpl : torch::nn::Module {
  UpstreamForkImpl() { weight = register_parameter("weight", torch::randn({16, 16})); }
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& x) {
    const auto z = torch::relu(torch::mm(x, weight));
    return {z.sin(), z.cos()};
  }
  at::Tensor weight;
};

/// Two tensors in, one out.
struct UpstreamJoinImpl : torch::nn::Module {
  UpstreamJoinImpl() { weight = register_parameter("weight", torch::randn({16, 16})); }
  at::Tensor forward(const std::pair<at::Tensor, at::Tensor>& pair) {
    return torch::relu(torch::mm(pair.first + pair.second, weight));
  }
  at::Tensor weight;
};

struct UpstreamForksAndJoins : torch::nn::Module {
  UpstreamForksAndJoins() {
    for (int i = 0; i < 2; ++i) {
      forks->push_back(std::make_shared<UpstreamForkImpl>());
      joins->push_back(std::make_shared<UpstreamJoinImpl>());
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (size_t i = 0; i < 2; ++i) {
      const auto pair = call(forks->ptr<UpstreamForkImpl>(i), x);
      x = joins->ptr<UpstreamJoinImpl>(i)->forward(pair);
    }
    return x;
  }
  torch::nn::ModuleList forks = register_module("forks", torch::nn::ModuleList());
  torch::nn::ModuleList joins = register_module("joins", torch::nn::ModuleList());
};

TEST(UpstreamWrapper, MarkedModulesMayReturnSeveralTensors) {
  torch::manual_seed(4);
  UpstreamForksAndJoins model;
  const auto x = torch::randn({4, 16}, at::requires_grad());
  const auto gradients = [&] {
    return torch::autograd::grad({model.forward(x).sum()}, model.parameters());
  };
  const auto plain = gradients();
  const auto is_fork = [](const torch::nn::Module& module) {
    return dynamic_cast<const UpstreamForkImpl*>(&module) != nullptr;
  };
  EXPECT_EQ(apply_activation_checkpointing(model, {}, is_fork), 2U);
  expect_bitwise_equal(plain, gradients());
}

}  // namespace
}  // namespace reprise::testing
