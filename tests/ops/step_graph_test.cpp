// Recorded steps against eager ones, to the last bit and for batches that are copied in; what is
// refused, and that eager work goes on after a refusal. All but the first case need a GPU.
#include "support/bitwise.h"
#include "support/devices.h"
#include "support/tensors.h"

#include <reprise/loss/head.h>
#include <reprise/model/lora.h>
#include <reprise/model/model.h>
#include <reprise/ops/cuda_kernels.h>
#include <reprise/ops/step_graph.h>

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

constexpr int64_t kVocabulary = 512, kRows = 2, kLength = 32, kPrompt = 5;

TEST(StepGraphRefusals, SayWhyThereIsNothingToRecordOn) {
  const auto parameter = torch::zeros({2}).requires_grad_();
  const auto message = message_of<c10::Error>(
      [&] { StepGraph::record([] { return torch::zeros({}); }, {parameter}); });
  EXPECT_TRUE(contains(message, "[step_graph]"));
  EXPECT_TRUE(contains(message,
                       load_cuda_kernels() ? "all parameters on one CUDA device, found cpu"
                                           : missing_cuda_kernels()));
}

std::shared_ptr<Model> tiny_model() {
  const Json json = {{"model_type", "llama"},
                     {"vocab_size", kVocabulary},
                     {"hidden_size", 64},
                     {"intermediate_size", 128},
                     {"num_hidden_layers", 2},
                     {"num_attention_heads", 4},
                     {"num_key_value_heads", 2},
                     {"head_dim", 16},
                     {"tie_word_embeddings", true},
                     {"max_position_embeddings", 128},
                     {"rms_norm_eps", 1e-5},
                     {"rope_theta", 10000.0}};
  auto model = std::make_shared<Model>(ModelConfig::from_json(json, "the config of this test"),
                                       HeadKind::CausalLm,
                                       at::device(at::kCUDA).dtype(at::kBFloat16));
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) {
    if (parameter.dim() == 1) {
      parameter.fill_(1);
    } else {
      parameter.normal_(0, 0.1);
    }
  }
  model->train();
  return model;
}

struct Rows {
  at::Tensor ids, targets;  // on the CPU

  static Rows random() {
    const auto ids = torch::randint(kVocabulary, {kRows, kLength}, at::kLong);
    auto targets = at::constant_pad_nd(ids.slice(1, 1), {0, 1}, kIgnoredLabel);
    targets.slice(1, 0, kPrompt).fill_(kIgnoredLabel);
    return {ids, targets};
  }

  /// Of every batch.
  static TargetSummary known() {
    return {.count = kRows * (kLength - 1 - kPrompt), .min = 0, .max = kVocabulary - 1};
  }
};

struct Outcome {
  at::Tensor loss;
  std::vector<at::Tensor> gradients;
};

class StepGraphs : public ::testing::Test {
 protected:
  void SetUp() override {
    REPRISE_REQUIRE_CUDA();
    ASSERT_TRUE(load_cuda_kernels()) << missing_cuda_kernels();
    auto& context = at::globalContext();
    had_cudnn_ = context.userEnabledCuDNNSDP();
    context.setDeterministicAlgorithms(true, /*warn_only=*/false);
    context.setSDPUseCuDNN(false);  // its backward adds in an order of its own
    torch::manual_seed(0);
    model_ = tiny_model();
    const auto on_device = at::device(at::kCUDA).dtype(at::kLong);
    ids_ = torch::zeros({kRows, kLength}, on_device);
    targets_ = torch::zeros({kRows, kLength}, on_device);
    copy_in(Rows::random());
  }

  void TearDown() override {
    at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
    at::globalContext().setSDPUseCuDNN(had_cudnn_);
  }

  void copy_in(const Rows& rows) {
    ids_.copy_(rows.ids);
    targets_.copy_(rows.targets);
  }

  at::Tensor step() {
    ModelInput input;
    input.input_ids = ids_;
    const auto hidden = model_->hidden_states(input);
    const auto values =
        linear_cross_entropy(hidden, model_->linear_head(), {targets_, Rows::known()});
    const auto loss = values.sum / static_cast<double>(values.tokens);
    loss.backward();
    return loss.detach();
  }

  StepGraph record() {
    return StepGraph::record([this] { return step(); }, model_->parameters());
  }

  /// Copies of the parameters' gradients, which are dropped then.
  Outcome taken(const at::Tensor& loss) {
    Outcome outcome{loss.cpu(), {}};
    for (const auto& parameter : model_->parameters()) {
      outcome.gradients.push_back(parameter.grad().defined() ? parameter.grad().cpu()
                                                             : at::Tensor());
    }
    model_->zero_grad(/*set_to_none=*/true);
    return outcome;
  }

  void set_policy(const std::string& policy, bool preserve_rng_state) {
    if (policy == "none") {
      model_->disable_checkpointing();
      return;
    }
    auto options = checkpoint_options_named(policy);
    options.preserve_rng_state = preserve_rng_state;
    model_->enable_checkpointing(BlockChoice::all(), options);
  }

  /// Trains adapters that add something.
  void adapt(double dropout) {
    LoraConfig config;
    config.rank = 8;
    config.dropout = dropout;
    add_lora(*model_, config, /*seed=*/1);
    const torch::NoGradGuard no_grad;
    for (auto& [name, parameter] : trained_parameters(*model_)) {
      parameter.normal_(0, 0.1);
    }
  }

  void expect_the_bits_of_eager_steps() {
    const std::vector<Rows> batches{Rows::random(), Rows::random(), Rows::random()};
    std::vector<Outcome> eager;
    for (const auto& batch : batches) {
      copy_in(batch);
      eager.push_back(taken(step()));
    }
    auto graph = record();
    EXPECT_FALSE(model_->parameters().front().grad().defined());
    for (size_t i = 0; i < batches.size(); ++i) {
      SCOPED_TRACE(i);
      copy_in(batches[i]);
      const auto replayed = taken(graph.replay());
      EXPECT_TRUE(bitwise_equal(replayed.loss, eager[i].loss));
      expect_bitwise_equal(replayed.gradients, eager[i].gradients);
    }
  }

  /// Random operators and steps find nothing left of a capture that failed.
  void expect_eager_work_goes_on() {
    EXPECT_NO_THROW(torch::rand({4}, at::kCUDA).sum().item<float>());
    EXPECT_NO_THROW(taken(step()));
  }

  bool had_cudnn_ = false;
  std::shared_ptr<Model> model_;
  at::Tensor ids_, targets_;
};

TEST_F(StepGraphs, GiveTheBitsOfEagerStepsUnderEveryPolicy) {
  for (const std::string policy : {"none", "full", "attention"}) {
    SCOPED_TRACE(policy);
    set_policy(policy, /*preserve_rng_state=*/false);
    expect_the_bits_of_eager_steps();
  }
}

TEST_F(StepGraphs, GiveTheBitsOfEagerStepsWithAdapters) {
  adapt(/*dropout=*/0);
  for (const std::string policy : {"none", "full"}) {
    SCOPED_TRACE(policy);
    set_policy(policy, /*preserve_rng_state=*/false);
    expect_the_bits_of_eager_steps();
  }
}

TEST_F(StepGraphs, DropOtherValuesInEveryReplay) {
  adapt(/*dropout=*/0.5);
  auto graph = record();
  const auto first = taken(graph.replay()), second = taken(graph.replay());
  EXPECT_FALSE(at::equal(first.loss, second.loss));
}

TEST_F(StepGraphs, WriteGradientsAndDoNotAddThem) {
  auto graph = record();
  graph.replay();
  const auto parameter = model_->parameters().front();
  const auto once = parameter.grad().cpu();
  graph.replay();
  EXPECT_TRUE(bitwise_equal(parameter.grad(), once));
  model_->zero_grad(/*set_to_none=*/false);
  graph.replay();
  EXPECT_TRUE(bitwise_equal(parameter.grad(), once));
  parameter.mutable_grad() = torch::ones_like(parameter);
  EXPECT_TRUE(contains(message_of<c10::Error>([&] { graph.replay(); }), "zero_grad"));
}

TEST_F(StepGraphs, RefuseRegionsThatNeedTheHost) {
  set_policy("full", /*preserve_rng_state=*/true);
  EXPECT_TRUE(contains(message_of<CheckpointError>([&] { record(); }),
                       "CheckpointOptions::preserve_rng_state = false"));
  expect_eager_work_goes_on();
  model_->enable_checkpointing(
      BlockChoice::all(),
      {.preserve_rng_state = false, .determinism_check = DeterminismCheck::Values});
  EXPECT_TRUE(contains(message_of<CheckpointError>([&] { record(); }), "DeterminismCheck::Values"));
  expect_eager_work_goes_on();
  set_policy("full", /*preserve_rng_state=*/false);
  EXPECT_NO_THROW(record().replay());
}

TEST_F(StepGraphs, RefuseToWaitAndNameTheUsualCauses) {
  const auto waiting = [&] {
    const auto loss = step();
    loss.item<float>();
    return loss;
  };
  EXPECT_TRUE(
      contains(message_of<c10::Error>([&] { StepGraph::record(waiting, model_->parameters()); }),
               "look for .item(), .cpu(), nonzero"));
  EXPECT_FALSE(model_->parameters().front().grad().defined());
  expect_eager_work_goes_on();
  EXPECT_NO_THROW(record().replay());
}

TEST_F(StepGraphs, RefuseStepsWithoutBackwardOrLoss) {
  const auto parameters = model_->parameters();
  EXPECT_TRUE(contains(message_of<c10::Error>([&] {
                         StepGraph::record([&] { return parameters[0].detach().sum(); },
                                           parameters);
                       }),
                       "must call backward()"));
  EXPECT_TRUE(contains(
      message_of<c10::Error>([&] { StepGraph::record([] { return at::Tensor(); }, parameters); }),
      "to return its loss"));
  EXPECT_TRUE(contains(message_of<c10::Error>([&] {
                         StepGraph::record([this] { return step(); }, parameters, {.warmup = 0});
                       }),
                       "at least one run"));
}

}  // namespace
}  // namespace reprise::testing
