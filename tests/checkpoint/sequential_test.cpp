// checkpoint_sequential: how a sequence is cut into regions, and which of them run again.
#include "checkpoint/counting_block.h"
#include "support/bitwise.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <vector>

namespace reprise::testing {
namespace {

class Sequence : public ::testing::Test {
 protected:
  static std::vector<int> runs_after_step(size_t count, size_t segments) {
    torch::nn::Sequential model;
    std::vector<Block> blocks;
    for (size_t i = 0; i < count; ++i) {
      model->push_back(blocks.emplace_back());
    }
    auto y = checkpoint_sequential(model, segments, block_input());
    y.sum().backward();
    std::vector<int> runs;
    for (const auto& block : blocks) {
      runs.push_back(block->runs);
    }
    return runs;
  }
};

TEST_F(Sequence, LastSegmentWithTheRemainderIsNotRecomputed) {
  EXPECT_EQ(runs_after_step(4, 1), (std::vector<int>{1, 1, 1, 1}));
  EXPECT_EQ(runs_after_step(4, 2), (std::vector<int>{2, 2, 1, 1}));
  EXPECT_EQ(runs_after_step(4, 4), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(runs_after_step(5, 2), (std::vector<int>{2, 2, 1, 1, 1}));
  EXPECT_EQ(runs_after_step(5, 3), (std::vector<int>{2, 2, 1, 1, 1}));
}

TEST_F(Sequence, MoreSegmentsThanModulesOrNoneIsRefusedWithBothNumbers) {
  const auto message = message_of<c10::Error>([] { runs_after_step(2, 3); });
  EXPECT_TRUE(contains(message, "cut 2 functions into 3 segments"));
  EXPECT_TRUE(contains(message_of<c10::Error>([] { runs_after_step(2, 0); }), "choose 1 to 2"));
  EXPECT_THROW(checkpoint_sequential(torch::nn::Sequential(), 1, block_input()), c10::Error);
}

TEST_F(Sequence, VectorOfCallablesIsBitwiseEqualToPlain) {
  using Layer = std::function<at::Tensor(at::Tensor)>;
  const auto weight = torch::randn({4, 4}).requires_grad_();
  auto calls = std::make_shared<int>(0);
  const Layer layer = [weight, calls](at::Tensor x) {
    ++*calls;
    return torch::tanh(torch::mm(x, weight));
  };
  const std::vector<Layer> layers(6, layer);
  auto x = block_input();
  for (const auto& f : layers) {
    x = f(x);
  }
  const auto plain = torch::autograd::grad({x.sum()}, {weight})[0];
  *calls = 0;
  const auto y = checkpoint_sequential(layers, 3, block_input());
  EXPECT_TRUE(bitwise_equal(x, y));
  EXPECT_TRUE(bitwise_equal(plain, torch::autograd::grad({y.sum()}, {weight})[0]));
  EXPECT_EQ(*calls, 6 + 4);
}

TEST_F(Sequence, SequentialWithOptionsIsBitwiseEqualToPlain) {
  torch::manual_seed(1);
  torch::nn::Sequential model(Block(4), Block(4), Block(4));
  const auto run = [&](bool is_checkpointed) {
    torch::manual_seed(2);
    model->zero_grad();
    const auto y =
        is_checkpointed
            ? checkpoint_sequential({.policy = policy::save_matmuls()}, model, 3, block_input())
            : model->forward(block_input());
    y.sum().backward();
    return model->parameters()[0].grad().clone();
  };
  EXPECT_TRUE(bitwise_equal(run(false), run(true)));
}

}  // namespace
}  // namespace reprise::testing
