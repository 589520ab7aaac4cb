// Adapters in a model: fresh ones, what is trained, which take part in a pass, merging.
#include "model/lora_case.h"
#include "support/kernel_calls.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

namespace reprise {
namespace {

using testing::bitwise_equal;
using testing::contains;
using testing::logits_of;
using testing::open_model;
using testing::plain_input;
using testing::shake;
using testing::targeting_modules;
using Names = std::vector<std::string>;

Names trained_names(const Model& model) {
  Names names;
  for (const auto& [name, parameter] : trained_parameters(model)) {
    names.push_back(name);
  }
  return names;
}

// What an optimizer does, for as far as it matters here.
void train_a_little(Model& model) {
  testing::step_of(model, plain_input());
  const torch::NoGradGuard no_grad;
  for (auto& [name, parameter] : trained_parameters(model)) {
    parameter.sub_(parameter.grad());
  }
}

std::map<std::string, at::Tensor> weights_of(const Model& model) {
  std::map<std::string, at::Tensor> weights;
  for (const auto& item : model.named_parameters()) {
    if (item.key().find(".lora.") == std::string::npos) {
      weights[item.key()] = item.value().detach().clone();
    }
  }
  return weights;
}

void expect_weights(const Model& model, const std::map<std::string, at::Tensor>& expected) {
  const auto found = weights_of(model);
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, weight] : expected) {
    EXPECT_TRUE(bitwise_equal(found.at(name), weight)) << name;
  }
}

TEST(FreshLora, ComputesWhatTheModelDid) {
  for (const auto& family : testing::family_cases()) {
    auto model = open_model(family);
    const auto before = logits_of(*model, plain_input());
    add_lora(*model, {}, 3);
    EXPECT_TRUE(torch::equal(logits_of(*model, plain_input()), before)) << family;
  }
}

TEST(FreshLora, WritesWhatItAddsWhereItBelongs) {
  auto model = open_model("llama");
  const auto copies = [&] {
    const testing::KernelCalls calls("aten", "cat");
    model->forward(plain_input());
    return calls.get();
  };
  const size_t without = copies();
  add_lora(*model, {}, 3);
  EXPECT_EQ(copies(), without);
}

TEST(FreshLora, DrawsAWithinPeftsBoundsAndSetsBToZero) {
  auto model = open_model("llama");
  auto config = targeting_modules({"down_proj"});
  config.rank = 64;
  add_lora(*model, config, 5);
  const auto parameters = model->named_parameters();
  const auto a = parameters["model.layers.0.mlp.down_proj.lora.A"];
  EXPECT_EQ(a.sizes(), (at::IntArrayRef{64, 20}));
  const double bound = 1 / std::sqrt(20.0);
  EXPECT_LE(a.abs().max().item<double>(), bound);
  EXPECT_NEAR(a.std().item<double>(), bound / std::sqrt(3.0), 0.01);
  EXPECT_EQ(parameters["model.layers.0.mlp.down_proj.lora.B"].abs().max().item<double>(), 0);
}

TEST(FreshLora, DependsOnTheSeedAlone) {
  uint64_t global_seed = 0;
  const auto drawn = [&](uint64_t seed) {
    auto model = open_model("llama");
    torch::manual_seed(++global_seed);
    add_lora(*model, targeting_modules({"q_proj"}), seed);
    return trained_parameters(*model).front().second.detach().clone();
  };
  EXPECT_TRUE(bitwise_equal(drawn(1), drawn(1)));
  EXPECT_FALSE(torch::equal(drawn(1), drawn(2)));
}

TEST(FreshLora, IsFloat32OnABFloat16BaseUnlessAskedOtherwise) {
  auto model = open_model("llama", {.dtype = at::kBFloat16});
  add_lora(*model, targeting_modules({"q_proj"}), 0);
  for (const auto& [name, parameter] : trained_parameters(*model)) {
    EXPECT_EQ(parameter.scalar_type(), at::kFloat) << name;
  }
  EXPECT_EQ(logits_of(*model, plain_input()).scalar_type(), at::kBFloat16);

  auto other = open_model("llama", {.dtype = at::kBFloat16});
  auto config = targeting_modules({"q_proj"});
  config.dtype = at::kBFloat16;
  add_lora(*other, config, 0);
  EXPECT_EQ(trained_parameters(*other).front().second.scalar_type(), at::kBFloat16);
}

TEST(FreshLora, IsRefusedOnAModelThatHasAdapters) {
  auto model = open_model("llama");
  add_lora(*model, {}, 0);
  const auto message = testing::message_of<c10::Error>([&] { add_lora(*model, {}, 0); });
  EXPECT_TRUE(contains(message, "has adapters already"));
}

TEST(TrainedParameters, AreTheAdaptersByPeftsNames) {
  auto model = open_model("qwen2");
  EXPECT_EQ(trained_parameters(*model).size(), model->parameters().size());
  EXPECT_EQ(trained_names(*model).front(), model->named_parameters().keys().front());
  auto config = targeting_modules({"q_proj"});
  config.layers = {1};
  add_lora(*model, config, 0);
  EXPECT_EQ(trained_names(*model),
            (Names{"base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight",
                   "base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight"}));
}

TEST(TrainedParameters, HoldTheScoreHeadWithoutBeingAsked) {
  for (const auto head : {HeadKind::Score, HeadKind::Value}) {
    auto model = open_model("llama_score", {.head = head});
    add_lora(*model, targeting_modules({"q_proj"}), 0);
    EXPECT_EQ(trained_names(*model),
              (Names{"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
                     "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight",
                     "base_model.model.score.weight"}));
  }
  auto model = open_model("gpt2_token_classes", {.head = HeadKind::TokenClasses});
  add_lora(*model, targeting_modules({"c_fc"}), 0);
  const auto names = trained_names(*model);
  EXPECT_EQ(Names(names.end() - 2, names.end()),
            (Names{"base_model.model.classifier.weight", "base_model.model.classifier.bias"}));
}

TEST(TrainedParameters, AreAllThatTrainingChanges) {
  for (const auto& family : testing::family_cases()) {
    auto model = open_model(family);
    add_lora(*model, {}, 0);
    const auto before = weights_of(*model);
    train_a_little(*model);
    expect_weights(*model, before);
  }
}

TEST(AdapterUse, OffIsTheBaseModelWhileAdaptersTrain) {
  for (const auto& family : testing::family_cases()) {
    auto model = open_model(family);
    const auto base = logits_of(*model, plain_input());
    add_lora(*model, {}, 0);
    shake(*model);
    train_a_little(*model);
    EXPECT_FALSE(torch::equal(logits_of(*model, plain_input()), base)) << family;
    for (const auto use : {AdapterUse::Off, AdapterUse::Reference}) {
      EXPECT_TRUE(bitwise_equal(logits_of(*model, plain_input(), use), base)) << family;
    }
  }
}

TEST(AdapterUse, OffTakesTheOriginalsOfModulesThatAreTrainedWhole) {
  auto model = open_model("qwen2");
  const auto base = logits_of(*model, plain_input());
  auto config = targeting_modules({"q_proj"});
  config.modules_to_save = {"lm_head", "embed_tokens"};
  add_lora(*model, config, 0);
  EXPECT_TRUE(bitwise_equal(logits_of(*model, plain_input()), base));
  train_a_little(*model);
  EXPECT_FALSE(torch::equal(logits_of(*model, plain_input()), base));
  EXPECT_TRUE(bitwise_equal(logits_of(*model, plain_input(), AdapterUse::Off), base));
}

TEST(AdapterUse, ReferenceStaysWhereTrainingBegan) {
  for (const std::string name : {"llama_qv", "qwen2_saved_head", "gpt2", "chatglm2"}) {
    const auto folder = testing::fixtures() / "adapters" / name;
    auto model =
        open_model(std::filesystem::path(LoraConfig::read(folder).base_model).filename().string());
    const auto base = logits_of(*model, plain_input());
    load_adapter(*model, folder, {.is_trainable = true, .keep_reference = true});
    const auto start = logits_of(*model, plain_input());
    train_a_little(*model);
    EXPECT_TRUE(bitwise_equal(logits_of(*model, plain_input(), AdapterUse::Reference), start));
    EXPECT_TRUE(bitwise_equal(logits_of(*model, plain_input(), AdapterUse::Off), base));
    EXPECT_FALSE(torch::equal(logits_of(*model, plain_input()), start)) << name;
    for (const auto& [parameter_name, parameter] : trained_parameters(*model)) {
      EXPECT_TRUE(parameter.grad().defined()) << parameter_name;
    }
  }
}

TEST(AdapterUse, OffIsNeitherCheckpointedNorDifferentiated) {
  for (const bool is_reentrant : {false, true}) {
    auto model = open_model("llama");
    add_lora(*model, targeting_modules({"q_proj"}), 1);
    CheckpointOptions options;
    options.use_reentrant = is_reentrant;
    model->enable_checkpointing(BlockChoice::all(), options);
    auto input = plain_input();
    input.adapters = AdapterUse::Off;
    EXPECT_FALSE(model->forward(input).requires_grad());
    input.adapters = AdapterUse::Trained;
    EXPECT_TRUE(model->forward(input).requires_grad());
  }
}

TEST(AdapterUse, ReferenceHasNoDropout) {
  auto config = targeting_modules({"q_proj"});
  config.dropout = 0.5;
  const testing::TemporaryFolder folder;
  {
    auto model = open_model("llama");
    add_lora(*model, config, 0);
    shake(*model);
    save_adapter(*model, folder.path(), config);
  }
  auto model = open_model("llama");
  load_adapter(*model, folder.path(), {.is_trainable = true, .keep_reference = true});
  model->eval();
  const auto exact = logits_of(*model, plain_input());
  model->train();
  EXPECT_FALSE(torch::equal(logits_of(*model, plain_input()), exact));
  EXPECT_TRUE(bitwise_equal(logits_of(*model, plain_input(), AdapterUse::Reference), exact));
}

TEST(HeadInFloat32, MayHaveAnAdapter) {
  auto model = open_model("qwen2", {.dtype = at::kBFloat16});
  add_lora(*model, targeting_modules({"lm_head"}), 0);
  shake(*model);
  model->compute_head_in_float32(true);
  const auto logits = logits_of(*model, plain_input());
  EXPECT_EQ(logits.scalar_type(), at::kFloat);
  merge_lora(*model);
  EXPECT_TRUE(torch::allclose(logits_of(*model, plain_input()), logits, 0.02, 0.05));
}

TEST(Merging, GivesTheLogitsOfTheAdapters) {
  for (const auto& family : testing::family_cases()) {
    auto model = open_model(family);
    add_lora(*model, {}, 0);
    shake(*model);
    const auto adapted = logits_of(*model, plain_input());
    merge_lora(*model);
    const auto merged = logits_of(*model, plain_input());
    EXPECT_LE((merged - adapted).abs().max().item<double>() / adapted.abs().max().item<double>(),
              1e-5)
        << family;
    EXPECT_FALSE(has_lora(*model));
    EXPECT_TRUE(bitwise_equal(logits_of(*model, plain_input(), AdapterUse::Off), merged));
    EXPECT_EQ(model->named_parameters().size(), open_model(family)->named_parameters().size());
  }
}

TEST(Merging, IsRoundedOnceOnABFloat16Base) {
  auto model = open_model("llama", {.dtype = at::kBFloat16});
  const std::string path = "model.layers.0.self_attn.q_proj";
  add_lora(*model, targeting_modules({"q_proj"}), 0);
  shake(*model);
  const auto parameters = model->named_parameters();
  const auto weight = parameters[path + ".weight"].to(at::kDouble);
  const auto product =
      parameters[path + ".lora.B"].to(at::kDouble).mm(parameters[path + ".lora.A"].to(at::kDouble));
  merge_lora(*model);
  const auto merged = model->named_parameters()[path + ".weight"];
  EXPECT_EQ(merged.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(bitwise_equal(merged, (weight + product).to(at::kBFloat16)));
}

TEST(Merging, KeepsTheModulesThatWereTrainedWhole) {
  auto model = open_model("llama_score", {.head = HeadKind::Score});
  add_lora(*model, targeting_modules({"q_proj"}), 0);
  shake(*model);
  const auto head = model->named_parameters()["score.weight"].detach().clone();
  merge_lora(*model);
  EXPECT_TRUE(bitwise_equal(model->named_parameters()["score.weight"], head));
  const auto merged = logits_of(*model, plain_input());
  EXPECT_TRUE(bitwise_equal(logits_of(*model, plain_input(), AdapterUse::Off), merged));
}

TEST(Merging, NeedsAdapters) {
  auto model = open_model("llama");
  EXPECT_TRUE(contains(testing::message_of<c10::Error>([&] { merge_lora(*model); }),
                       "no adapters to merge"));
}

TEST(MergingForAWhile, PutsTheWeightsBackToTheLastBit) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const auto& family : testing::family_cases()) {
      auto model = open_model(family, {.dtype = dtype});
      const auto base = logits_of(*model, plain_input());
      add_lora(*model, {}, 0);
      shake(*model);
      const auto weights = weights_of(*model);
      const auto adapted = logits_of(*model, plain_input());
      {
        const MergedLora merged(*model);
        EXPECT_TRUE(bitwise_equal(logits_of(*model, plain_input(), AdapterUse::Off), base));
        EXPECT_TRUE(torch::allclose(logits_of(*model, plain_input()).to(at::kFloat),
                                    adapted.to(at::kFloat),
                                    dtype == at::kFloat ? 1e-4 : 0.05,
                                    dtype == at::kFloat ? 1e-4 : 0.2))
            << family;
        EXPECT_TRUE(has_lora(*model));
      }
      expect_weights(*model, weights);
      EXPECT_TRUE(bitwise_equal(logits_of(*model, plain_input()), adapted)) << family;
    }
  }
}

TEST(MergingForAWhile, LeavesTheReferenceAsItIs) {
  auto model = open_model("llama");
  load_adapter(*model,
               testing::fixtures() / "adapters" / "llama_qv",
               {.is_trainable = true, .keep_reference = true});
  const auto start = logits_of(*model, plain_input());
  train_a_little(*model);
  const MergedLora merged(*model);
  EXPECT_TRUE(bitwise_equal(logits_of(*model, plain_input(), AdapterUse::Reference), start));
}

TEST(MergingForAWhile, RefusesToTrainAndToMergeTwice) {
  auto model = open_model("llama");
  add_lora(*model, {}, 0);
  const MergedLora merged(*model);
  EXPECT_TRUE(
      contains(testing::message_of<c10::Error>([&] { testing::step_of(*model, plain_input()); }),
               "no gradient reaches them"));
  EXPECT_TRUE(
      contains(testing::message_of<c10::Error>([&] { merge_lora(*model); }), "merged already"));
  EXPECT_TRUE(contains(testing::message_of<c10::Error>([&] { const MergedLora second(*model); }),
                       "merged already"));
}

TEST(MergingForAWhile, DoesNothingWithoutAdapters) {
  auto model = open_model("llama");
  const auto weights = weights_of(*model);
  { const MergedLora merged(*model); }
  expect_weights(*model, weights);
}

TEST(MergingForAWhile, IsNoticedByABackwardPassThatBeganBefore) {
  auto model = open_model("llama");
  add_lora(*model, {}, 0);
  const auto loss = next_token_loss(model->forward(plain_input()), plain_input().input_ids);
  { const MergedLora merged(*model); }
  EXPECT_TRUE(contains(testing::message_of<c10::Error>([&] { loss.backward(); }), "inplace"));
}

}  // namespace
}  // namespace reprise
