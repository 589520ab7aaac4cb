// The claims of PyTorch's tests of checkpointing under DistributedDataParallel
// (test/distributed/test_c10d_common.py) that concern regions. docs/upstream-tests.md says which
// test is which.
//
// The two ranks run one after the other, each on its half of the batch, and their gradients are
// averaged. As DDP does, a hook on each parameter's accumulator tells when its gradient is ready:
// DDP sends it then, so a second time in one backward would be too late.
#include "checkpoint/torch_versions.h"
#include "support/bitwise.h"
#include "support/zoo.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

struct UpstreamLayers {
  explicit UpstreamLayers(bool shares_weights) : l1(20, 20), l2(20, 20) {
    if (shares_weights) {
      l1->weight = l2->weight;
    }
  }
  Fn first() const {
    return [layer = l1.ptr()](const at::Tensor& x) { return layer->forward(x); };
  }
  Fn second() const {
    return [layer = l2.ptr()](const at::Tensor& x) { return layer->forward(x); };
  }
  torch::nn::Linear l1, l2;
  int count = 0;
};

using Forward = std::function<at::Tensor(UpstreamLayers&, const at::Tensor&, const RegionRunner&)>;

at::Tensor once(UpstreamLayers& model, const at::Tensor& x, const RegionRunner& region) {
  return region(model.second(), model.l1(x));
}

at::Tensor twice(UpstreamLayers& model, const at::Tensor& x, const RegionRunner& region) {
  return region(model.second(), region(model.second(), model.l1(x)));
}

/// Another layer in every step.
at::Tensor alternating(UpstreamLayers& model, const at::Tensor& x, const RegionRunner& region) {
  return region(model.count++ % 2 == 1 ? model.first() : model.second(), x);
}

at::Tensor as_a_whole(UpstreamLayers& model, const at::Tensor& x, const RegionRunner& region) {
  return region([first = model.first(),
                 second = model.second()](const at::Tensor& h) { return second(first(h)); },
                x);
}

struct Replica {
  Replica(const Forward& forward_of, RegionRunner run, bool shares_weights)
      : forward(forward_of), runner(std::move(run)) {
    torch::manual_seed(31415);
    model = std::make_shared<UpstreamLayers>(shares_weights);
    for (const auto& parameter : parameters()) {
      auto ready = std::make_shared<int>(0);
      accumulators.push_back(torch::autograd::impl::grad_accumulator(parameter));
      accumulators.back()->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
          [ready](const torch::autograd::variable_list& outputs,
                  const torch::autograd::variable_list&) {
            ++*ready;
            return outputs;
          }));
      times_ready.push_back(std::move(ready));
    }
  }

  /// l1.weight, l1.bias, l2.weight, l2.bias; without l2.weight if it is shared.
  std::vector<at::Tensor> parameters() const {
    if (model->l1->weight.is_same(model->l2->weight)) {
      return {model->l1->weight, model->l1->bias, model->l2->bias};
    }
    return {model->l1->weight, model->l1->bias, model->l2->weight, model->l2->bias};
  }

  void step(const at::Tensor& input, const at::Tensor& target) {
    for (const auto& count : times_ready) {
      *count = 0;
    }
    for (const auto& parameter : parameters()) {
      parameter.mutable_grad() = at::Tensor();
    }
    torch::mse_loss(forward(*model, input, runner), target).backward();
  }

  std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> all;
    for (const auto& parameter : parameters()) {
      all.push_back(parameter.grad().defined() ? parameter.grad() : torch::zeros_like(parameter));
    }
    return all;
  }
  /// By parameter.
  std::vector<int> ready() const {
    std::vector<int> counts;
    for (const auto& count : times_ready) {
      counts.push_back(*count);
    }
    return counts;
  }

  Forward forward;
  RegionRunner runner;
  std::shared_ptr<UpstreamLayers> model;
  std::vector<detail::NodePtr> accumulators;
  std::vector<std::shared_ptr<int>> times_ready;
};

struct DdpCase {
  Forward forward;
  bool shares_weights = false;
  bool use_reentrant = false;
  /// Whether a reentrant region may sum a shared weight's gradients in another order.
  bool is_near = false;
};

/// Trains two ranks and one process in step. Returns how often each gradient was ready in the last
/// step.
std::vector<int> expect_ddp_gradients(const DdpCase& one) {
  constexpr int64_t kRanks = 2;
  constexpr int64_t kRows = 16;
  const RegionRunner plain = [](const Fn& fn, const at::Tensor& x) { return fn(x); };
  Replica whole(one.forward, plain, one.shares_weights);
  std::vector<Replica> ranks;
  std::vector<Replica> plain_ranks;
  for (int64_t i = 0; i < kRanks; ++i) {
    ranks.emplace_back(one.forward, with({.use_reentrant = one.use_reentrant}), one.shares_weights);
    plain_ranks.emplace_back(one.forward, plain, one.shares_weights);
  }
  for (int step = 0; step < 4; ++step) {
    const auto input = torch::rand({kRanks * kRows, 20}).requires_grad_();
    const auto target = torch::randn({kRanks * kRows, 20});
    whole.step(input, target);
    std::vector<at::Tensor> mean;
    for (int64_t i = 0; i < kRanks; ++i) {
      const auto mine = input.narrow(0, i * kRows, kRows);
      const auto wanted = target.narrow(0, i * kRows, kRows);
      ranks[i].step(mine, wanted);
      plain_ranks[i].step(mine, wanted);
      const auto gradients = ranks[i].gradients();
      if (!one.is_near) {
        expect_bitwise_equal(gradients, plain_ranks[i].gradients());
      }
      for (size_t j = 0; j < gradients.size(); ++j) {
        if (i == 0) {
          mean.push_back(torch::zeros_like(gradients[j]));
        }
        mean[j] += gradients[j] / kRanks;
      }
    }
    const auto expected = whole.gradients();
    for (size_t j = 0; j < mean.size(); ++j) {
      EXPECT_TRUE(torch::allclose(mean[j], expected[j], 1.3e-6, 5e-5)) << j;
    }
  }
  return ranks[0].ready();
}

TEST(UpstreamDdp, ARegionAroundOneLayer) {
  for (const bool use_reentrant : {false, true}) {
    EXPECT_EQ(expect_ddp_gradients({.forward = once, .use_reentrant = use_reentrant}),
              (std::vector<int>{1, 1, 1, 1}));
  }
}

/// Upstream refuses the reentrant one: "Expected to mark a variable ready only once".
TEST(UpstreamDdp, TwoRegionsAroundTheSameLayer) {
  EXPECT_EQ(expect_ddp_gradients({.forward = twice}), (std::vector<int>{1, 1, 1, 1}));
  EXPECT_EQ(expect_ddp_gradients({.forward = twice, .use_reentrant = true, .is_near = true}),
            (std::vector<int>{1, 1, 2, 2}));
}

TEST(UpstreamDdp, LayersThatAStepDoesNotUse) {
  EXPECT_EQ(expect_ddp_gradients({.forward = alternating}), (std::vector<int>{1, 1, 0, 0}));
  EXPECT_EQ(expect_ddp_gradients({.forward = alternating, .shares_weights = true}),
            (std::vector<int>{1, 1, 0}));
}

/// One region around the whole model, and two around the same layer. A reentrant region gives the
/// gradient of the shared weight once for each inner backward, and the rest of the graph once more.
TEST(UpstreamDdp, SharedWeights) {
  for (const bool use_reentrant : {false, true}) {
    EXPECT_EQ(expect_ddp_gradients(
                  {.forward = as_a_whole, .shares_weights = true, .use_reentrant = use_reentrant}),
              (std::vector<int>{1, 1, 1}));
  }
  EXPECT_EQ(expect_ddp_gradients({.forward = twice, .shares_weights = true}),
            (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(expect_ddp_gradients(
                {.forward = twice, .shares_weights = true, .use_reentrant = true, .is_near = true}),
            (std::vector<int>{3, 1, 2}));
}

}  // namespace
}  // namespace reprise::testing
