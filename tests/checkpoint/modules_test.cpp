// Checkpointing of torch::nn modules: what apply_activation_checkpointing reaches, what it leaves
// as it was, and what it refuses.
#include "checkpoint/counting_block.h"
#include "support/bitwise.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

using Strings = std::vector<std::string>;

/// Calls its blocks the way the library asks for.
struct StackImpl : torch::nn::Module {
  explicit StackImpl(int depth) {
    for (int i = 0; i < depth; ++i) {
      blocks->push_back(Block());
    }
    register_module("blocks", blocks);
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& block : *blocks) {
      x = call(std::dynamic_pointer_cast<BlockImpl>(block), x);
    }
    return x;
  }
  std::vector<int> runs() const {
    std::vector<int> counts;
    for (const auto& block : *blocks) {
      counts.push_back(std::dynamic_pointer_cast<BlockImpl>(block)->runs);
    }
    return counts;
  }
  torch::nn::ModuleList blocks;
};
TORCH_MODULE(Stack);

struct PairImpl : torch::nn::Module {
  std::tuple<at::Tensor, at::Tensor> forward(at::Tensor x) { return {x, x * 2}; }
};
struct SumImpl : torch::nn::Module {
  at::Tensor forward(at::Tensor a, at::Tensor b) { return a + b; }
};

bool is_block(const torch::nn::Module& module) {
  return dynamic_cast<const BlockImpl*>(&module) != nullptr;
}
bool is_anything(const torch::nn::Module&) {
  return true;
}

Strings parameter_names(const torch::nn::Module& module) {
  return module.named_parameters().keys();
}

TEST(ApplyToSequential, RecomputesEachWrappedChildOnce) {
  Block first, second;
  torch::nn::Sequential model(first, torch::nn::Tanh(), second);
  EXPECT_EQ(apply_activation_checkpointing(model, {}, is_block), 2U);
  model->forward(block_input()).sum().backward();
  EXPECT_EQ(first->runs, 2);
  EXPECT_EQ(second->runs, 2);
}

TEST(ApplyToSequential, IsBitwiseEqualToPlain) {
  const auto gradients = [](bool is_checkpointed) {
    torch::manual_seed(5);
    torch::nn::Sequential model(Block(4), torch::nn::Tanh(), Block(4));
    if (is_checkpointed) {
      apply_activation_checkpointing(model, {}, is_anything);
    }
    model->forward(block_input()).sum().backward();
    std::vector<at::Tensor> all;
    for (const auto& parameter : model->parameters()) {
      all.push_back(parameter.grad());
    }
    return all;
  };
  expect_bitwise_equal(gradients(false), gradients(true));
}

TEST(ApplyToSequential, LeavesNamesParametersAndBuffersAlone) {
  torch::nn::Sequential model(Block(4), torch::nn::Linear(4, 4));
  const auto parameters = parameter_names(*model);
  const auto buffers = model->named_buffers().keys();
  const auto modules = model->named_modules().keys();
  apply_activation_checkpointing(model, {}, is_anything);
  EXPECT_EQ(parameter_names(*model), parameters);
  EXPECT_EQ(model->named_buffers().keys(), buffers);
  EXPECT_EQ(model->named_modules().keys(), modules);
  EXPECT_NE(dynamic_cast<const BlockImpl*>(model->ptr(0).get()), nullptr);
}

TEST(ApplyToSequential, TrainAndEvalReachTheChildInAnyOrder) {
  Block block;
  torch::nn::Sequential model(block);
  model->eval();
  apply_activation_checkpointing(model, {}, is_block);
  EXPECT_FALSE(block->is_training());
  model->train();
  EXPECT_TRUE(block->is_training());
  model->eval();
  EXPECT_TRUE(
      bitwise_equal(model->forward(block_input()), torch::tanh(block->linear(block_input()))));
}

TEST(ApplyToSequential, NoGradModeRunsPlainly) {
  Block block;
  torch::nn::Sequential model(block);
  apply_activation_checkpointing(model, {}, is_block);
  const torch::NoGradGuard no_grad;
  EXPECT_FALSE(model->forward(block_input()).requires_grad());
  EXPECT_EQ(block->runs, 1);
}

TEST(ApplyToSequential, ApplyingTwiceReplacesAndDoesNotNest) {
  Block block;
  torch::nn::Sequential model(block);
  apply_activation_checkpointing(model, {.name = "first"}, is_block);
  EXPECT_EQ(apply_activation_checkpointing(model, {.name = "second"}, is_block), 1U);
  record_checkpoint_stats(true);
  reset_checkpoint_stats();
  model->forward(block_input()).sum().backward();
  const auto stats = checkpoint_stats();
  record_checkpoint_stats(false);
  EXPECT_EQ(stats.regions.count("first"), 0U);
  EXPECT_EQ(stats.regions.at("second").entered, 1U);
  EXPECT_EQ(block->runs, 2);
}

TEST(ApplyToSequential, RemoveRestoresTheChild) {
  Block block;
  torch::nn::Sequential model(block, torch::nn::Tanh());
  apply_activation_checkpointing(model, {}, is_anything);
  EXPECT_GT(remove_activation_checkpointing(*model), 0U);
  model->forward(block_input()).sum().backward();
  EXPECT_EQ(block->runs, 1);
  EXPECT_EQ(model->at<BlockImpl>(0).runs, 1);  // found by type again
  EXPECT_EQ(remove_activation_checkpointing(*model), 0U);
}

TEST(ApplyToSequential, WrapsEveryUseOfAModuleThatIsPushedTwice) {
  Block shared;
  torch::nn::Sequential model(shared, torch::nn::Tanh(), shared);
  EXPECT_EQ(apply_activation_checkpointing(model, {}, is_block), 1U);
  model->forward(block_input()).sum().backward();
  EXPECT_EQ(shared->runs, 4);
}

TEST(ApplyToSequential, WrapsAModuleThatTwoSequentialsShare) {
  struct Model : torch::nn::Module {
    torch::nn::Sequential left, right;
  } model;
  Block shared;
  model.left = model.register_module("left", torch::nn::Sequential(shared));
  model.right = model.register_module("right", torch::nn::Sequential(shared));
  EXPECT_EQ(apply_activation_checkpointing(model, {}, is_block), 1U);
  model.right->forward(block_input()).sum().backward();
  EXPECT_EQ(shared->runs, 2);
  remove_activation_checkpointing(model);
  model.right->forward(block_input()).sum().backward();
  EXPECT_EQ(shared->runs, 3);
}

TEST(ApplyToSequential, CloneKeepsParametersAndNamesAndIsCheckpointedToo) {
  torch::manual_seed(3);
  torch::nn::Sequential model(Block(4), Block(4));
  apply_activation_checkpointing(model, {}, is_block);
  const auto clone = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(model->clone());
  EXPECT_EQ(parameter_names(*clone), parameter_names(*model));
  const auto block = std::dynamic_pointer_cast<BlockImpl>(clone->ptr(0));
  ASSERT_NE(block, nullptr);
  clone->eval();
  EXPECT_FALSE(block->is_training());
  clone->forward(block_input()).sum().backward();
  EXPECT_EQ(block->runs, 2);
  EXPECT_TRUE(block->linear->weight.grad().defined());
  EXPECT_FALSE(model->parameters()[0].grad().defined());
}

TEST(ApplyToSequential, ChildThatReturnsSeveralTensorsIsRefusedByName) {
  torch::nn::Sequential model(std::make_shared<PairImpl>());
  apply_activation_checkpointing(model, {}, is_anything);
  const auto message = message_of<c10::Error>([&] { model->forward<at::Tensor>(block_input()); });
  EXPECT_TRUE(contains(message, "PairImpl"));
  EXPECT_TRUE(contains(message, "one tensor"));
}

TEST(ApplyToSequential, ChildThatTakesSeveralTensorsIsRefusedByName) {
  torch::nn::Sequential model(std::make_shared<SumImpl>());
  apply_activation_checkpointing(model, {}, is_anything);
  const auto message =
      message_of<c10::Error>([&] { model->forward<at::Tensor>(block_input(), block_input()); });
  EXPECT_TRUE(contains(message, "SumImpl"));
  EXPECT_TRUE(contains(message, "one tensor"));
}

TEST(ApplyToMarked, CallObeysTheMark) {
  Stack model(3);
  EXPECT_EQ(apply_activation_checkpointing(model, {}, is_block), 3U);
  model->forward(block_input()).sum().backward();
  EXPECT_EQ(model->runs(), (std::vector<int>{2, 2, 2}));
}

TEST(ApplyToMarked, CallOfAnUnmarkedModuleIsPlain) {
  Stack model(2);
  auto y = model->forward(block_input());
  y.sum().backward();
  EXPECT_EQ(model->runs(), (std::vector<int>{1, 1}));
}

TEST(ApplyToMarked, PredicateMayPickSomeModules) {
  Stack model(3);
  const auto* picked = (*model->blocks)[1].get();
  EXPECT_EQ(
      apply_activation_checkpointing(model, {}, [picked](const auto& m) { return &m == picked; }),
      1U);
  model->forward(block_input()).sum().backward();
  EXPECT_EQ(model->runs(), (std::vector<int>{1, 2, 1}));
}

TEST(ApplyToMarked, ApplyingTwiceReplacesAndRemoveUndoes) {
  Stack model(1);
  apply_activation_checkpointing(model, {}, is_block);
  apply_activation_checkpointing(model, {}, is_block);
  model->forward(block_input()).sum().backward();
  EXPECT_EQ(model->runs(), (std::vector<int>{2}));
  EXPECT_EQ(remove_activation_checkpointing(*model), 1U);
  model->forward(block_input()).sum().backward();
  EXPECT_EQ(model->runs(), (std::vector<int>{3}));
}

TEST(ApplyToMarked, RegionsAreNamedByPathUnlessTheOptionsNameThem) {
  Stack model(2);
  apply_activation_checkpointing(model, {}, is_block);
  record_checkpoint_stats(true);
  reset_checkpoint_stats();
  model->forward(block_input()).sum().backward();
  EXPECT_EQ(checkpoint_stats().regions.count("blocks.1"), 1U);
  apply_activation_checkpointing(model, {.name = "block"}, is_block);
  reset_checkpoint_stats();
  model->forward(block_input()).sum().backward();
  EXPECT_EQ(checkpoint_stats().regions.at("block").entered, 2U);
  record_checkpoint_stats(false);
}

TEST(ApplyToMarked, UncalledMarksNamesModulesThatNobodyCalledThroughUs) {
  Stack model(2);
  EXPECT_TRUE(uncalled_marks(*model).empty());
  apply_activation_checkpointing(model, {}, is_anything);
  EXPECT_EQ(uncalled_marks(*model),
            (Strings{"blocks", "blocks.0", "blocks.0.linear", "blocks.1", "blocks.1.linear"}));
  model->forward(block_input());
  EXPECT_EQ(uncalled_marks(*model), (Strings{"blocks", "blocks.0.linear", "blocks.1.linear"}));
}

TEST(ApplyToMarked, NestedModulesAreFoundAndNested) {
  struct Model : torch::nn::Module {
    Stack stack{2};
    torch::nn::Sequential head{Block()};
  } model;
  model.register_module("stack", model.stack);
  model.register_module("head", model.head);
  const auto is_stack_or_block = [](const torch::nn::Module& m) {
    return is_block(m) || dynamic_cast<const StackImpl*>(&m) != nullptr;
  };
  EXPECT_EQ(apply_activation_checkpointing(model, {}, is_stack_or_block), 4U);
  model.head->forward(call(model.stack, block_input())).sum().backward();
  // Once in forward, once in the stack's recompute, once in its own; the stack stops early after
  // its last block's input.
  EXPECT_EQ(model.stack->runs(), (std::vector<int>{3, 2}));
}

TEST(ApplyToMarked, AddressOfADestroyedModuleDoesNotInheritItsMark) {
  struct Model : torch::nn::Module {};
  alignas(BlockImpl) static std::byte memory[sizeof(BlockImpl)];
  const auto place = [] {
    return std::shared_ptr<BlockImpl>(new (memory) BlockImpl(4),
                                      [](BlockImpl* block) { block->~BlockImpl(); });
  };
  auto block = place();
  {
    Model model;
    model.register_module("block", block);
    apply_activation_checkpointing(model, {}, is_block);
  }
  ASSERT_NE(detail::mark_of(*block), nullptr);
  block.reset();
  block = place();
  EXPECT_EQ(detail::mark_of(*block), nullptr);
}

TEST(Apply, MatchingNothingListsTheTypesItSaw) {
  torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::Tanh());
  const auto message =
      message_of<CheckpointError>([&] { apply_activation_checkpointing(model, {}, is_block); });
  EXPECT_TRUE(contains(message, "torch::nn::LinearImpl"));
  EXPECT_TRUE(contains(message, "torch::nn::TanhImpl"));
  EXPECT_TRUE(contains(message, "matched no module"));
}

TEST(Apply, AModelWithoutSubmodulesIsRefused) {
  torch::nn::Linear model(4, 4);
  EXPECT_TRUE(contains(
      message_of<CheckpointError>([&] { apply_activation_checkpointing(model, {}, is_anything); }),
      "no submodules"));
}

/// A model is changed as a whole or not at all.
TEST(Apply, APredicateThatThrowsLeavesTheModelAsItWas) {
  struct ModelImpl : torch::nn::Module {
    ModelImpl() {
      register_module("marked", Block());
      register_module("wrapped", torch::nn::Sequential(Block(), torch::nn::Tanh(), Block()));
      register_module("last", torch::nn::Linear(2, 2));
    }
  };
  ModelImpl model;
  const auto throws_at_the_last = [](const torch::nn::Module& module) {
    if (dynamic_cast<const torch::nn::LinearImpl*>(&module) != nullptr) {
      throw std::runtime_error("cannot tell");
    }
    return is_block(module);
  };
  EXPECT_THROW(apply_activation_checkpointing(model, {}, throws_at_the_last), std::runtime_error);
  EXPECT_EQ(remove_activation_checkpointing(model), 0U);
  EXPECT_EQ(apply_activation_checkpointing(model, {}, is_block), 3U);
}

TEST(Apply, AMatchThatCannotBeAffectedLeavesTheOthersAsTheyWere) {
  struct ModelImpl : torch::nn::Module {
    ModelImpl() {
      register_module("block", Block());
      register_module("encoder",
                      torch::nn::TransformerEncoder(torch::nn::TransformerEncoderLayer(8, 2), 1));
    }
  };
  ModelImpl model;
  EXPECT_THROW(apply_activation_checkpointing(model, {}, is_anything), CheckpointError);
  EXPECT_EQ(remove_activation_checkpointing(model), 0U);
}

TEST(Apply, AsksOnceAboutAModuleWithSeveralParents) {
  struct ModelImpl : torch::nn::Module {
    ModelImpl() {
      register_module("first", first);
      register_module("second", second);
    }
    Block shared;
    torch::nn::Sequential first{shared}, second{shared};
  };
  ModelImpl model;
  int asked = 0;
  const auto alternates = [&asked](const torch::nn::Module& module) {
    return is_block(module) && asked++ % 2 == 0;
  };
  EXPECT_EQ(apply_activation_checkpointing(model, {}, alternates), 1U);
  EXPECT_EQ(asked, 1);
  model.second->forward(model.first->forward(block_input().requires_grad_())).sum().backward();
  EXPECT_EQ(model.shared->runs, 4);  // both uses are checkpointed
}

TEST(Call, PassesSeveralArgumentsOfAnyKind) {
  struct ScaleImpl : torch::nn::Module {
    at::Tensor forward(const at::Tensor& x, std::optional<at::Tensor> mask, double factor) {
      return x * (mask ? *mask : torch::ones_like(x)) * factor;
    }
  };
  const auto scale = std::make_shared<ScaleImpl>();
  const auto x = block_input().requires_grad_();
  EXPECT_TRUE(bitwise_equal(call(scale, x, std::optional<at::Tensor>(block_input() * 2), 3.0),
                            block_input() * 6));
}

TEST(Call, OfNothingIsAnErrorAndNoCrash) {
  EXPECT_THROW(call(std::shared_ptr<BlockImpl>(), block_input()), c10::Error);
  EXPECT_THROW(call(Block(nullptr), block_input()), c10::Error);
}

// LibTorch's own modules call their children without asking us.
TEST(ApplyActivationCheckpointing, RefusesWhatLibTorchCallsItself) {
  struct Model : torch::nn::Module {
    Model() {
      register_module("encoder",
                      torch::nn::TransformerEncoder(torch::nn::TransformerEncoderLayer(8, 2), 2));
    }
  };
  Model model;
  const auto is_layer = [](const torch::nn::Module& m) {
    return dynamic_cast<const torch::nn::TransformerEncoderLayerImpl*>(&m) != nullptr;
  };
  const auto message =
      message_of<CheckpointError>([&] { apply_activation_checkpointing(model, {}, is_layer); });
  EXPECT_TRUE(contains(message, "encoder.layers.0"));
  EXPECT_TRUE(contains(message, "torch::nn::TransformerEncoderImpl calls it"));
}

}  // namespace
}  // namespace reprise::testing
