// config.json of models that are not known, and of those that also see or hear: what the refusal
// names, and the text part alone.
#include "model/lora_case.h"
#include "support/bitwise.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

#include <reprise/io/json.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>
#include <reprise/model/pretrained.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::fixtures;
using testing::message_of;
using testing::TemporaryFolder;

class MixedFolder : public ::testing::Test {
 protected:
  /// The folder of a fixture as a model of text and vision: tensors under a prefix, and others.
  void write(const std::string& fixture, const std::string& prefix, const std::string& head) {
    const fs::path source = fixtures() / "models" / fixture;
    text_ = read_json(source / "config.json");
    text_.erase("architectures");
    const TensorCheckpoint checkpoint(source);
    NamedTensors tensors = {{"vision_tower.layers.0.weight", at::ones({3})},
                            {"multi_modal_projector.linear.weight", at::ones({2})}};
    for (const auto& name : checkpoint.names()) {
      const std::string rest = name.substr(name.find('.') + 1);
      tensors.emplace_back(name.starts_with("lm_head") ? head : prefix + rest,
                           checkpoint.view(name).clone());
    }
    write_checkpoint(folder_.path(), tensors);
    write_config("mixed", {{"text_config", text_}, {"vision_config", {{"hidden_size", 8}}}});
  }

  void write_config(const std::string& type, Json json) {
    json["model_type"] = type;
    write_json(folder_ / "config.json", json);
  }

  std::string refusal(ModelPart part = ModelPart::Whole) const {
    return message_of<c10::Error>([&] { ModelConfig::read(folder_.path(), part); });
  }

  TemporaryFolder folder_;
  Json text_;
};

TEST_F(MixedFolder, IsRefusedAndSaysHowToOpenItsText) {
  write("llama_untied", "language_model.model.", "language_model.lm_head.weight");
  const auto message = refusal();
  EXPECT_TRUE(contains(message, "a mixed model has vision_config.")) << message;
  EXPECT_TRUE(contains(message, "Give --text_only to open its text part, a llama model"))
      << message;
}

TEST_F(MixedFolder, OpensItsTextPartUnderEveryPrefix) {
  const auto expected = testing::open_model("llama_untied");
  const auto input = testing::plain_input();
  const at::Tensor logits = testing::logits_of(*expected, input);
  for (const auto& [prefix, head] :
       {std::pair("language_model.model.", "language_model.lm_head.weight"),
        std::pair("model.language_model.", "lm_head.weight"),
        std::pair("model.text_model.", "lm_head.weight"),
        std::pair("model.", "lm_head.weight")}) {
    write("llama_untied", prefix, head);
    const auto loaded = load_model(folder_.path(), {.part = ModelPart::Text});
    EXPECT_TRUE(testing::bitwise_equal(testing::logits_of(*loaded.model, input), logits)) << prefix;
    EXPECT_TRUE(contains(loaded.warnings.back(), "left: multi_modal_projector.*, vision_tower.*"))
        << loaded.warnings.back();
  }
}

TEST_F(MixedFolder, IsSavedAsATextModel) {
  write("llama_untied", "model.language_model.", "lm_head.weight");
  const auto loaded = load_model(folder_.path(), {.part = ModelPart::Text});
  const TemporaryFolder saved;
  save_model(*loaded.model, saved.path(), {.source = folder_.path()});
  const Json config = read_json(saved / "config.json");
  EXPECT_EQ(config["model_type"], "llama");
  EXPECT_EQ(config["architectures"], Json{"LlamaForCausalLM"});
  EXPECT_FALSE(config.contains("vision_config"));
  const TensorCheckpoint before(fixtures() / "models/llama_untied"), after(saved.path());
  EXPECT_EQ(after.names(), before.names());
  const auto again = load_model(saved.path());
  EXPECT_TRUE(testing::bitwise_equal(testing::logits_of(*again.model, testing::plain_input()),
                                     testing::logits_of(*loaded.model, testing::plain_input())));
}

TEST_F(MixedFolder, OfQwenVlRotatesTextAsQwenDoes) {
  write("qwen2", "model.language_model.", "lm_head.weight");
  text_["model_type"] = "qwen2_5_vl_text";
  text_.erase("rope_parameters");
  text_["rope_scaling"] = {{"type", "mrope"}, {"mrope_section", {1, 1}}};
  write_config("qwen2_5_vl", {{"text_config", text_}, {"vision_config", Json::object()}});
  const auto config = ModelConfig::read(folder_.path(), ModelPart::Text);
  EXPECT_EQ(config.source["model_type"], "qwen2");
  EXPECT_EQ(config.rope.scaling, RopeConfig::Scaling::None);
}

TEST_F(MixedFolder, MayHaveItsTextFieldsBesideTheOthers) {
  write("qwen2", "model.", "lm_head.weight");
  Json json = text_;
  json["vision_config"] = {{"depth", 2}};
  json["vision_start_token_id"] = 7;
  write_config("qwen2_vl", json);
  const auto config = ModelConfig::read(folder_.path(), ModelPart::Text);
  EXPECT_EQ(config.source["model_type"], "qwen2");
  EXPECT_FALSE(config.source.contains("vision_start_token_id"));
}

TEST_F(MixedFolder, WithAnUnknownTextPartNamesTheNearestFamily) {
  write("llama_untied", "language_model.model.", "language_model.lm_head.weight");
  text_["model_type"] = "llama_but_better";
  text_["looks_twice"] = true;
  write_config("mixed", {{"text_config", text_}, {"audio_config", Json::object()}});
  for (const ModelPart part : {ModelPart::Whole, ModelPart::Text}) {
    const auto message = refusal(part);
    EXPECT_TRUE(contains(message,
                         "has audio_config. Its text part has the model_type "
                         "\"llama_but_better\", which is not known. The nearest family is "))
        << message;
    EXPECT_TRUE(contains(message, "does not read the fields looks_twice")) << message;
  }
}

TEST_F(MixedFolder, IsRequiredByTextOnly) {
  const auto folder = fixtures() / "models/llama";
  const auto message = message_of<c10::Error>([&] { ModelConfig::read(folder, ModelPart::Text); });
  EXPECT_TRUE(contains(message, "describes no part besides text: --text_only has no effect"));
  EXPECT_EQ(ModelConfig::read(folder, ModelPart::TextIfMixed).layers,
            ModelConfig::read(folder).layers);
}

TEST_F(MixedFolder, OfAnUnknownTypeNamesTheNearestFamilyByItsTensors) {
  write("gpt2", "transformer.", "lm_head.weight");
  text_["new_field"] = 1;
  write_config("gpt2000", text_);
  NamedTensors tensors;
  const TensorCheckpoint checkpoint(fixtures() / "models/gpt2");
  for (const auto& name : checkpoint.names()) {
    tensors.emplace_back(name, checkpoint.view(name).clone());
  }
  tensors.emplace_back("transformer.h.0.attn.gate.weight", at::ones({1}));
  write_checkpoint(folder_.path(), tensors);
  const auto message = refusal();
  EXPECT_TRUE(contains(message,
                       "found \"gpt2000\". The nearest family is gpt2, which has no tensors "
                       "transformer.h.*.attn.gate, and does not read the fields new_field"))
      << message;
}

}  // namespace
}  // namespace reprise
