// Settings without effect are errors that name the setting, and a call that fails leaves everything
// as it was.
#include "checkpoint/counting_block.h"
#include "law/programs.h"
#include "support/clone_backend.h"

#include <stdexcept>

namespace reprise::testing {
namespace {

at::Tensor ineffective_block(at::Tensor h) {
  return (h * h).tanh();
}

/// Runs a region with these options. The input is an activation.
Tensors run_with(const CheckpointOptions& options) {
  auto x = sine_leaf({256, 256});
  checkpoint(options, ineffective_block, x.sin()).sum().backward();
  return {x.grad()};
}

void without_effect(const CheckpointOptions& options, const std::string& cause) {
  const auto message = message_of<CheckpointError>([&] { run_with(options); });
  EXPECT_TRUE(contains(message, cause));
  EXPECT_TRUE(contains(message, options.name)) << "which region?";
}

TEST(LawNoEffect, GeneratorsWithoutTheirState) {
  without_effect({.preserve_rng_state = false,
                  .generators = {at::detail::createCPUGenerator()},
                  .name = "drawing"},
                 "generators");
}

TEST(LawNoEffect, AnUndefinedGenerator) {
  without_effect({.generators = {at::Generator()}, .name = "drawing"}, "generator");
}

TEST(LawNoEffect, GeneratorsOfAReentrantRegionWithoutTheirState) {
  without_effect({.use_reentrant = true,
                  .preserve_rng_state = false,
                  .generators = {at::detail::createCPUGenerator()},
                  .name = "drawing"},
                 "generators");
}

TEST(LawNoEffect, EarlyStopOfAReentrantRegion) {
  without_effect({.use_reentrant = true, .early_stop = false, .name = "old"}, "early_stop");
}

TEST(LawNoEffect, ThePolicyOfAReentrantRegion) {
  without_effect({.use_reentrant = true, .policy = policy::full(), .name = "old"}, "policy");
}

TEST(LawNoEffect, ValuesOfAReentrantRegion) {
  without_effect(
      {.use_reentrant = true, .determinism_check = DeterminismCheck::Values, .name = "old"},
      "Values");
}

TEST(LawNoEffect, AllowLossyWithoutAPolicy) {
  without_effect({.allow_lossy = true, .name = "lossy"}, "allow_lossy");
}

TEST(LawNoEffect, AllowLossyWithAPolicyThatCompressesNothing) {
  without_effect({.policy = policy::save_ops({"aten::tanh"}), .allow_lossy = true, .name = "lossy"},
                 "allow_lossy");
  without_effect({.policy = policy::full(), .allow_lossy = true, .name = "lossy"}, "allow_lossy");
}

// Exact anyway: permission to round has no effect.
TEST(LawNoEffect, AllowLossyWithAPolicyThatCompressesMasksAlone) {
  const auto masks = policy::from([](const OpContext& op) {
    return op.name == "aten::gt" ? Decision::Compress : Decision::Recompute;
  });
  auto x = sine_leaf({512, 512});
  const auto fn = [](at::Tensor h) { return torch::where(h > 0, h, h.sin()).tanh(); };
  EXPECT_TRUE(contains(message_of<CheckpointError>([&] {
                         checkpoint(
                             {.policy = masks, .allow_lossy = true, .name = "lossy"}, fn, x.sin());
                       }),
                       "allow_lossy"));
  checkpoint({.policy = masks, .name = "exact"}, fn, x.sin()).sum().backward();
}

TEST(LawNoEffect, AllowLossyThatCompressesStillWorks) {
  const auto rounded = policy::from([](const OpContext& op) {
    return op.name == "aten::tanh" ? Decision::Compress : Decision::Recompute;
  });
  EXPECT_NO_THROW(run_with({.policy = rounded, .allow_lossy = true, .name = "lossy"}));
}

TEST(LawNoEffect, OffloadInputsOnTheCpu) {
  without_effect({.offload_inputs = true, .name = "offloading"}, "offload_inputs");
}

TEST(LawNoEffect, OffloadInputsOfLeaves) {
  const BackendScope backend(std::make_shared<CloneBackend>(4096, /*is_lazy=*/false));
  auto x = sine_leaf({256, 256});
  const CheckpointOptions options{.offload_inputs = true, .name = "offloading"};
  EXPECT_TRUE(
      contains(message_of<CheckpointError>([&] { checkpoint(options, ineffective_block, x); }),
               "offload_inputs"));
}

TEST(LawNoEffect, OffloadInputsWithoutInputs) {
  const BackendScope backend(std::make_shared<CloneBackend>(4096, /*is_lazy=*/false));
  const CheckpointOptions options{.offload_inputs = true, .name = "offloading"};
  const auto fn = [x = sine_leaf({256, 256})] { return x.tanh().exp(); };
  EXPECT_TRUE(
      contains(message_of<CheckpointError>([&] { checkpoint(options, fn); }), "offload_inputs"));
}

TEST(LawNoEffect, OffloadInputsOfActivationsStillWorks) {
  const BackendScope backend(std::make_shared<CloneBackend>(4096, /*is_lazy=*/true));
  expect_bitwise_equal(run_with({.name = "staying"}),
                       run_with({.offload_inputs = true, .name = "offloading"}));
}

TEST(LawNoEffect, APolicyThatMatchesNothing) {
  without_effect({.policy = policy::save_ops({"aten::mm"}), .name = "keeping"}, "aten::mm");
  without_effect({.policy = policy::save_matmuls(), .name = "keeping"}, "save_matmuls");
  without_effect({.policy = policy::save_attention(), .name = "keeping"}, "save_attention");
}

TEST(LawNoEffect, PoliciesThatCannotKeepAnything) {
  EXPECT_THROW(policy::save_ops({}), CheckpointError);
  EXPECT_THROW(policy::save_ops({"aten::no_such_operator"}), CheckpointError);
  EXPECT_THROW(policy::save_ops({"aten::linear"}), CheckpointError);
  EXPECT_THROW(policy::save_ops({"aten::add_"}), CheckpointError);
  EXPECT_THROW(policy::save_matmuls(0), CheckpointError);
  EXPECT_THROW(policy::from(nullptr), CheckpointError);
  EXPECT_THROW(register_op_class("aten::no_such_operator", OpClass::Matmul), CheckpointError);
}

TEST(LawNoEffect, ARefusedRegionLeavesTheNextOneAlone) {
  const auto expected = run_with({.name = "next"});
  without_effect({.generators = {at::Generator()}, .name = "refused"}, "generator");
  expect_bitwise_equal(run_with({.name = "next"}), expected);
}

/// A predicate that throws at its n-th question.
std::function<bool(const torch::nn::Module&)> throwing_at(int question) {
  return [question, asked = std::make_shared<int>(0)](const torch::nn::Module& module) {
    if (++*asked == question) {
      throw std::runtime_error("the predicate failed");
    }
    return dynamic_cast<const BlockImpl*>(&module) != nullptr;
  };
}

bool is_counting_block(const torch::nn::Module& module) {
  return dynamic_cast<const BlockImpl*>(&module) != nullptr;
}

TEST(LawNoEffect, APredicateThatThrowsLeavesASequentialAsItWas) {
  for (int question = 1; question <= 4; ++question) {
    SCOPED_TRACE(question);
    Block first, second;
    torch::nn::Sequential model(first, second);
    EXPECT_THROW(apply_activation_checkpointing(model, {}, throwing_at(question)),
                 std::runtime_error);
    model->forward(block_input()).sum().backward();
    EXPECT_EQ(first->runs, 1);
    EXPECT_EQ(second->runs, 1);
    EXPECT_EQ(&model->at<BlockImpl>(0), first.get()) << "still found by its type";
    EXPECT_EQ(apply_activation_checkpointing(model, {}, is_counting_block), 2U);
    model->forward(block_input()).sum().backward();
    EXPECT_EQ(first->runs, 3);
    EXPECT_EQ(second->runs, 3);
    EXPECT_EQ(remove_activation_checkpointing(*model), 2U);
  }
}

TEST(LawNoEffect, APredicateThatThrowsLeavesEarlierCheckpointingAsItWas) {
  Block first, second;
  torch::nn::Sequential model(first, second);
  const auto is_first = [&](const torch::nn::Module& module) { return &module == first.get(); };
  apply_activation_checkpointing(model, {}, is_first);
  EXPECT_THROW(apply_activation_checkpointing(model, {}, throwing_at(3)), std::runtime_error);
  model->forward(block_input()).sum().backward();
  EXPECT_EQ(first->runs, 2);
  EXPECT_EQ(second->runs, 1);
}

struct MarkedPairImpl : torch::nn::Module {
  MarkedPairImpl() {
    register_module("first", first);
    register_module("second", second);
  }
  at::Tensor forward(at::Tensor x) { return call(second, call(first, x)); }
  Block first, second;
};
TORCH_MODULE(MarkedPair);

TEST(LawNoEffect, APredicateThatThrowsLeavesMarksAsTheyWere) {
  MarkedPair model;
  EXPECT_THROW(apply_activation_checkpointing(model, {}, throwing_at(3)), std::runtime_error);
  EXPECT_TRUE(uncalled_marks(*model).empty());
  model->forward(block_input()).sum().backward();
  EXPECT_EQ(model->first->runs, 1);
  EXPECT_EQ(model->second->runs, 1);
  EXPECT_EQ(apply_activation_checkpointing(model, {}, is_counting_block), 2U);
}

TEST(LawNoEffect, AMatchThatCannotBeReachedLeavesTheModelAsItWas) {
  struct Model : torch::nn::Module {
    torch::nn::Sequential head{Block(4)};
    torch::nn::TransformerEncoder encoder{torch::nn::TransformerEncoderLayer(4, 1), 1};
  } model;
  model.register_module("head", model.head);
  model.register_module("encoder", model.encoder);
  const auto is_block_or_layer = [](const torch::nn::Module& module) {
    return is_counting_block(module) ||
           dynamic_cast<const torch::nn::TransformerEncoderLayerImpl*>(&module) != nullptr;
  };
  EXPECT_THROW(apply_activation_checkpointing(model, {}, is_block_or_layer), CheckpointError);
  EXPECT_EQ(remove_activation_checkpointing(model), 0U);
}

TEST(LawNoEffect, ASequentialCutIntoMorePiecesThanItHas) {
  torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::Tanh());
  EXPECT_THROW(checkpoint_sequential(model, 3, sine_leaf({2, 4})), c10::Error);
  EXPECT_THROW(checkpoint_sequential(model, 0, sine_leaf({2, 4})), c10::Error);
}

TEST(LawNoEffect, AGroupInsideAGroup) {
  const GraphExecGroup group;
  EXPECT_THROW(GraphExecGroup(), c10::Error);
}

}  // namespace
}  // namespace reprise::testing
