// Folders of adapters: written whole, opened by the writer, refused by name when they do not fit.
#include "model/lora_case.h"
#include "support/temporary_folder.h"

#include <reprise/io/file.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::bitwise_equal;
using testing::contains;
using testing::logits_of;
using testing::open_model;
using testing::plain_input;
using testing::targeting_modules;
using testing::TemporaryFolder;
using Names = std::vector<std::string>;

fs::path adapter_folder(const std::string& name) {
  return testing::fixtures() / "adapters" / name;
}

// A model whose adapters were made here.
std::shared_ptr<Model> adapted_model(const std::string& name,
                                     const LoraConfig& config,
                                     const LoadOptions& options = {}) {
  auto model = open_model(name, options);
  add_lora(*model, config, 1);
  testing::shake(*model);
  return model;
}

// llama_qv with its tensors changed.
std::string refusal_of_tensors(const std::function<void(NamedTensors&)>& change,
                               const std::string& base = "llama") {
  const TemporaryFolder folder;
  fs::copy(adapter_folder("llama_qv") / "adapter_config.json", folder.path());
  const TensorFile file(adapter_folder("llama_qv") / "adapter_model.safetensors");
  NamedTensors tensors;
  for (const auto& info : file.tensors()) {
    tensors.emplace_back(info.name, file.view(info).clone());
  }
  change(tensors);
  write_safetensors(folder.path() / "adapter_model.safetensors", tensors);
  auto model = open_model(base);
  const auto before = logits_of(*model, plain_input());
  const auto message = testing::message_of<c10::Error>(
      [&] { load_adapter(*model, folder.path(), {.is_trainable = true}); });
  EXPECT_FALSE(has_lora(*model));
  EXPECT_TRUE(bitwise_equal(logits_of(*model, plain_input()), before));
  EXPECT_EQ(trained_parameters(*model).size(), model->parameters().size()) << "frozen by a failure";
  return message;
}

TEST(AdapterFolder, OpensAsItWasSaved) {
  for (const auto& family : testing::family_cases()) {
    const LoraConfig config;
    const auto model = adapted_model(family, config);
    const TemporaryFolder folder;
    save_adapter(*model, folder.path() / "new" / "folder", config);
    auto other = open_model(family);
    load_adapter(*other, folder.path() / "new" / "folder");
    EXPECT_TRUE(bitwise_equal(logits_of(*other, plain_input()), logits_of(*model, plain_input())))
        << family;
    EXPECT_EQ(trained_parameters(*other).size(),
              other->parameters().size() - trained_parameters(*model).size())
        << "not trainable: the base is as it was";
  }
}

TEST(AdapterFolder, NamesTaskLayoutAndTheModulesOfAllLinear) {
  const auto model = adapted_model("gpt2", {});
  const TemporaryFolder folder;
  save_adapter(*model, folder.path(), {});
  const auto json = read_json(folder.path() / "adapter_config.json");
  EXPECT_EQ(json["task_type"], "CAUSAL_LM");
  EXPECT_EQ(json["fan_in_fan_out"], true);
  EXPECT_EQ(json["inference_mode"], true);
  ASSERT_EQ(json["target_modules"].size(), 8u);
  EXPECT_EQ(json["target_modules"][0], "transformer.h.0.attn.c_attn");
}

TEST(AdapterFolder, HoldsRanksOfTheirOwn) {
  auto config = targeting_modules({"q_proj", "v_proj"});
  config.rank_pattern = {{"q_proj", 2}};
  config.alpha_pattern = {{"v_proj", 5}};
  config.layers = {0, 2};
  const auto model = adapted_model("llama", config);
  const TemporaryFolder folder;
  save_adapter(*model, folder.path(), config);
  auto other = open_model("llama");
  const auto read = load_adapter(*other, folder.path());
  EXPECT_EQ(read.rank_pattern, config.rank_pattern);
  EXPECT_EQ(read.alpha_pattern, config.alpha_pattern);
  EXPECT_TRUE(bitwise_equal(logits_of(*other, plain_input()), logits_of(*model, plain_input())));
}

TEST(AdapterFolder, HoldsTheHeadOfARewardModelAndOfACritic) {
  for (const auto head : {HeadKind::Score, HeadKind::Value}) {
    const auto config = targeting_modules({"q_proj"});
    const auto model = adapted_model("llama_score", config, {.head = head});
    const TemporaryFolder folder;
    save_adapter(*model, folder.path(), config);
    const auto json = read_json(folder.path() / "adapter_config.json");
    EXPECT_EQ(json["task_type"], "SEQ_CLS");
    EXPECT_EQ(json["modules_to_save"], Json::array({"score"}));
    const TensorFile file(folder.path() / "adapter_model.safetensors");
    EXPECT_NE(file.find("base_model.model.score.weight"), nullptr);
    auto other = open_model("llama_score", {.head = head});
    load_adapter(*other, folder.path());
    EXPECT_TRUE(bitwise_equal(logits_of(*other, plain_input()), logits_of(*model, plain_input())));
  }
}

TEST(AdapterFolder, OfALanguageModelCanBeginARewardModel) {
  const auto config = targeting_modules({"q_proj"});
  const auto language_model = adapted_model("llama_untied", config);
  const TemporaryFolder folder, again;
  save_adapter(*language_model, folder.path(), config);
  auto model = open_model("llama_untied", {.head = HeadKind::Score});
  const auto read = load_adapter(*model, folder.path(), {.is_trainable = true});
  EXPECT_EQ(trained_parameters(*model).back().first, "base_model.model.score.weight");
  save_adapter(*model, again.path(), read);
  EXPECT_EQ(read_json(again.path() / "adapter_config.json")["task_type"], "SEQ_CLS");
}

TEST(AdapterFolder, IsSavedInTheAdaptersOwnType) {
  auto config = targeting_modules({"q_proj"});
  config.dtype = at::kBFloat16;
  const auto model = adapted_model("llama", config);
  const TemporaryFolder folder, again;
  save_adapter(*model, folder.path(), config);
  const TensorFile file(folder.path() / "adapter_model.safetensors");
  EXPECT_EQ(file.tensors().front().dtype, at::kBFloat16);

  auto other = open_model("llama");
  const auto read = load_adapter(*other, folder.path(), {.dtype = at::kBFloat16});
  save_adapter(*other, again.path(), read);
  EXPECT_EQ(read_file(again.path() / "adapter_model.safetensors"),
            read_file(folder.path() / "adapter_model.safetensors"));
}

TEST(AdapterFolder, IsNotSavedWithAConfigOfOtherAdapters) {
  const auto config = targeting_modules({"q_proj", "v_proj"});
  const auto model = adapted_model("llama", config);
  const TemporaryFolder folder;
  const auto refusal = [&](const LoraConfig& other) {
    return testing::message_of<c10::Error>([&] { save_adapter(*model, folder.path(), other); });
  };
  auto other_rank = config;
  other_rank.rank = 4;
  EXPECT_TRUE(contains(refusal(other_rank), "the adapter has rank 8"));
  EXPECT_TRUE(contains(refusal(targeting_modules({"q_proj"})), "does not name"));
  EXPECT_TRUE(
      contains(refusal(targeting_modules({"q_proj", "v_proj", "k_proj"})), "has no adapter"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(AdapterFolder, IsNotSavedWithoutAdapters) {
  const TemporaryFolder folder;
  const auto message = testing::message_of<c10::Error>(
      [&] { save_adapter(*open_model("llama"), folder.path(), {}); });
  EXPECT_TRUE(contains(message, "no adapters to save"));
}

TEST(AdapterFolder, IsRefusedForAModelThatHasAdapters) {
  const auto model = adapted_model("llama", {});
  const auto message =
      testing::message_of<c10::Error>([&] { load_adapter(*model, adapter_folder("llama_qv")); });
  EXPECT_TRUE(contains(message, "has adapters already"));
}

TEST(AdapterFolder, IsRefusedForAModelOfAnotherKind) {
  const auto refusal = [](const char* model, const char* adapter) {
    auto opened = open_model(model);
    return testing::message_of<c10::Error>([&] { load_adapter(*opened, adapter_folder(adapter)); });
  };
  EXPECT_TRUE(contains(refusal("gpt2", "llama_qv"), "match no projection"));
  EXPECT_TRUE(contains(refusal("llama_untied", "llama_score"), "task_type: expected CAUSAL_LM"));
  EXPECT_TRUE(contains(refusal("gpt_neox", "gpt2"), "match no projection"));
}

TEST(AdapterTensors, ThatAreMissingAreRefused) {
  std::string name;
  const auto message = refusal_of_tensors([&](NamedTensors& tensors) {
    name = tensors.back().first;
    tensors.pop_back();
  });
  EXPECT_TRUE(contains(message, "the tensor " + name + " is missing"));
  EXPECT_TRUE(contains(message, "adapter_model.safetensors"));
}

TEST(AdapterTensors, ThatAreNotExpectedAreRefused) {
  const auto message = refusal_of_tensors([](NamedTensors& tensors) {
    tensors.emplace_back("base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight",
                         torch::zeros({4, 16}));
  });
  EXPECT_TRUE(contains(message, "k_proj.lora_A.weight is not expected"));
  EXPECT_TRUE(contains(refusal_of_tensors([](NamedTensors&) {}, "llama_untied"),
                       "layers.1.self_attn.q_proj.lora_A.weight is not expected"));
}

TEST(AdapterTensors, OfAnotherShapeAreRefused) {
  const auto message = refusal_of_tensors([](NamedTensors& tensors) {
    tensors.front().second = torch::zeros({5, 16});
  });
  EXPECT_TRUE(contains(message, "expected the shape [4, 16], found [5, 16]"));
}

TEST(AdapterTensors, OfWholeNumbersAreRefused) {
  const auto message = refusal_of_tensors(
      [](NamedTensors& tensors) { tensors.front().second = tensors.front().second.to(at::kLong); });
  EXPECT_TRUE(contains(message, "expected floating point numbers"));
}

TEST(AdapterTensors, AreReadFromAFileOfTorchSave) {
  const TemporaryFolder folder;
  fs::copy(adapter_folder("llama_qv") / "adapter_config.json", folder.path());
  fs::copy(testing::fixtures() / "io" / "torch" / "adapter_model.bin", folder.path());
  auto pickled = open_model("llama"), safe = open_model("llama");
  load_adapter(*pickled, folder.path());
  load_adapter(*safe, adapter_folder("llama_qv"));
  EXPECT_TRUE(bitwise_equal(logits_of(*pickled, plain_input()), logits_of(*safe, plain_input())));
}

TEST(AdapterTensors, ThatAreNoDictionaryOrNotThereAreRefused) {
  const TemporaryFolder folder;
  auto model = open_model("llama");
  const auto refusal = [&] {
    return testing::message_of<c10::Error>([&] { load_adapter(*model, folder.path()); });
  };
  EXPECT_TRUE(contains(refusal(), "adapter_config.json"));
  fs::copy(adapter_folder("llama_qv") / "adapter_config.json", folder.path());
  EXPECT_TRUE(contains(refusal(), "adapter_model.safetensors"));
  write_file(folder.path() / "adapter_model.bin", "pickle");
  EXPECT_TRUE(contains(refusal(), "adapter_model.bin: "));
}

}  // namespace
}  // namespace reprise
