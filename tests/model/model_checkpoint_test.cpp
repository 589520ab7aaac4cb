// Hugging Face directories in and out: nothing changes on the way, nothing wrong gets in.
#include "model/model_case.h"
#include "support/bitwise.h"
#include "support/fixtures.h"
#include "support/parity.h"
#include "support/temporary_folder.h"
#include "support/tensors.h"

#include <reprise/io/json.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>
#include <reprise/model/pretrained.h>

#include <gtest/gtest.h>

#include <string>

namespace reprise {
namespace {

namespace fs = std::filesystem;
using testing::bitwise_equal;
using testing::contains;
using testing::head_of;
using testing::message_of;
using testing::model_folder;

void expect_same_tensors(const fs::path& a, const fs::path& b) {
  const TensorCheckpoint x(a), y(b);
  EXPECT_EQ(x.names(), y.names());
  for (const auto& name : x.names()) {
    EXPECT_TRUE(bitwise_equal(x.view(name), y.view(name))) << name;
  }
}

TEST(RoundTrip, KeepsEveryTensorOfEveryFixtureAndItsConfig) {
  size_t folders = 0;
  for (const auto& entry : fs::directory_iterator(testing::fixtures() / "models")) {
    SCOPED_TRACE(entry.path().filename().string());
    const testing::TemporaryFolder folder;
    const auto loaded = load_model(entry.path(), {.head = head_of(entry.path().filename())});
    save_model(*loaded.model, folder.path(), {.source = entry.path()});
    expect_same_tensors(entry.path(), folder.path());
    const auto before = read_json(entry.path() / "config.json");
    EXPECT_EQ(Json(read_json(folder.path() / "config.json")), before);
    EXPECT_TRUE(fs::exists(folder.path() / "generation_config.json"));
    ++folders;
  }
  EXPECT_GE(folders, 102U);
}

TEST(RoundTrip, ShardsAndOpensThemAgain) {
  const testing::TemporaryFolder folder;
  const auto model = load_model(model_folder("qwen3")).model;
  save_model(*model, folder.path(), {.max_shard_bytes = 4000});
  EXPECT_TRUE(fs::exists(folder.path() / "model.safetensors.index.json"));
  EXPECT_FALSE(fs::exists(folder.path() / "model.safetensors"));
  expect_same_tensors(model_folder("qwen3"), folder.path());
  // Saved whole into the same folder, the shards are gone.
  save_model(*model, folder.path());
  EXPECT_FALSE(fs::exists(folder.path() / "model.safetensors.index.json"));
  expect_same_tensors(model_folder("qwen3"), folder.path());
}

TEST(RoundTrip, ConvertsWhenAskedAndSaysSoInTheConfig) {
  const testing::TemporaryFolder folder;
  const auto model = load_model(model_folder("llama")).model;
  save_model(*model, folder.path(), {.dtype = at::kBFloat16});
  const auto config = ModelConfig::read(folder.path());
  EXPECT_EQ(config.dtype, at::kBFloat16);
  EXPECT_EQ(load_model(folder.path()).model->dtype(), at::kBFloat16);
}

TEST(Heads, ARewardModelBeginsFromALanguageModelAndOpensAgain) {
  const testing::TemporaryFolder folder;
  const auto fresh = load_model(model_folder("llama_untied"), {.head = HeadKind::Score, .seed = 5});
  ASSERT_EQ(fresh.warnings.size(), 1U);
  EXPECT_TRUE(contains(fresh.warnings.front(), "score.weight"));
  EXPECT_EQ(fresh.model->outputs(), 1);
  save_model(*fresh.model, folder.path());
  const auto json = read_json(folder.path() / "config.json");
  EXPECT_EQ(json["architectures"][0], "LlamaForSequenceClassification");
  EXPECT_EQ(json["id2label"].size(), 1U);
  const auto again = load_model(folder.path(), {.head = HeadKind::Value});
  EXPECT_TRUE(again.warnings.empty());
  const auto name = std::string("score.weight");
  EXPECT_TRUE(
      bitwise_equal(again.model->named_parameters()[name], fresh.model->named_parameters()[name]));
}

TEST(Heads, AreChosenByTheCallerNotByTheFolder) {
  const auto classes =
      load_model(model_folder("gpt2"), {.head = HeadKind::TokenClasses, .labels = 4}).model;
  EXPECT_EQ(classes->head_path(), "classifier");
  EXPECT_EQ(classes->outputs(), 4);
  const auto message =
      message_of<c10::Error>([] { load_model(model_folder("llama_score"), {.labels = 3}); });
  // Asked for as a language model: its lm_head is not there.
  EXPECT_TRUE(contains(message, "tensors are missing: lm_head.weight"));
}

TEST(Heads, KeepTheNamesOfTheirLabels) {
  const testing::TemporaryFolder folder;
  const auto model =
      load_model(model_folder("llama_token_classes"), {.head = HeadKind::TokenClasses}).model;
  auto config = model->config();
  config.source["id2label"] = {{"0", "O"}, {"1", "B-PER"}, {"2", "I-PER"}};
  Model named(config, HeadKind::TokenClasses);
  named.initialize(1);
  save_model(named, folder.path());
  EXPECT_EQ(read_json(folder.path() / "config.json")["id2label"]["1"], "B-PER");
}

// The tied llama's tensors, with a head beside them or instead of the embedding.
class TiedWithHead {
 public:
  TiedWithHead(const at::Tensor& head, bool keeps_embedding) {
    const TensorCheckpoint whole(model_folder("llama"));
    NamedTensors tensors;
    for (const auto& name : whole.names()) {
      if (keeps_embedding || name != "model.embed_tokens.weight") {
        tensors.emplace_back(name, whole.view(name));
      }
    }
    tensors.emplace_back("lm_head.weight", head);
    write_safetensors(folder_.path() / "model.safetensors", tensors);
    fs::copy(model_folder("llama") / "config.json", folder_.path());
  }
  LoadedModel load() const { return load_model(folder_.path()); }

 private:
  testing::TemporaryFolder folder_;
};

TEST(TiedHead, ThatIsStoredIsTheEmbeddingOrAHeadOfItsOwn) {
  const auto embedding =
      TensorCheckpoint(model_folder("llama")).view("model.embed_tokens.weight").clone();
  const TiedWithHead same(embedding, /*keeps_embedding=*/true);
  EXPECT_TRUE(same.load().warnings.empty());
  EXPECT_TRUE(same.load().model->has_tied_head());
  const TiedWithHead other(embedding + 1, /*keeps_embedding=*/true);
  const auto loaded = other.load();
  ASSERT_EQ(loaded.warnings.size(), 1U);
  EXPECT_TRUE(contains(loaded.warnings.front(), "the head is not tied"));
  const std::string head = "lm_head.weight";
  EXPECT_TRUE(bitwise_equal(loaded.model->named_parameters()[head].detach(), embedding + 1));
  const TiedWithHead alone(embedding, /*keeps_embedding=*/false);
  const std::string name = "model.embed_tokens.weight";
  EXPECT_TRUE(bitwise_equal(alone.load().model->named_parameters()[name].detach(), embedding));
}

TEST(OldCheckpoints, OfTheBareBackboneWithComputedBuffersOpen) {
  const testing::TemporaryFolder folder;
  const TensorCheckpoint whole(model_folder("gpt2"));
  NamedTensors bare;
  for (const auto& name : whole.names()) {
    bare.emplace_back(name.substr(std::string("transformer.").size()), whole.view(name));
  }
  bare.emplace_back("h.0.attn.bias", torch::ones({1, 1, 4, 4}, at::kBool));
  bare.emplace_back("h.0.attn.masked_bias", torch::tensor(-1e4));
  write_safetensors(folder.path() / "model.safetensors", bare);
  fs::copy(model_folder("gpt2") / "config.json", folder.path());
  const auto loaded = load_model(folder.path());
  EXPECT_TRUE(loaded.warnings.empty());
  const auto name = std::string("transformer.wte.weight");
  EXPECT_TRUE(bitwise_equal(loaded.model->named_parameters()[name].detach(), whole.view(name)));
}

// The tensors of a fixture as older versions of its class named and stored them.
std::shared_ptr<Model> open_old(const std::string& name,
                                const std::function<void(NamedTensors&)>& change) {
  const testing::TemporaryFolder folder;
  const TensorCheckpoint whole(model_folder(name));
  NamedTensors tensors;
  for (const auto& stored : whole.names()) {
    tensors.emplace_back(stored, whole.view(stored).clone());
  }
  change(tensors);
  write_safetensors(folder.path() / "model.safetensors", tensors);
  fs::copy(model_folder(name) / "config.json", folder.path());
  const auto loaded = load_model(folder.path());
  EXPECT_TRUE(loaded.warnings.empty()) << loaded.warnings.front();
  return loaded.model;
}

void expect_tensors_of(const std::string& name, const Model& model) {
  const TensorCheckpoint whole(model_folder(name));
  for (const auto& item : model.named_parameters()) {
    EXPECT_TRUE(bitwise_equal(item.value().detach(), whole.view(item.key()))) << item.key();
  }
}

TEST(OldCheckpoints, OfEveryClassicFamilyOpen) {
  const auto without = [](const std::string& prefix) {
    return [prefix](NamedTensors& tensors) {
      for (auto& [name, tensor] : tensors) {
        name = name.substr(prefix.size());
      }
    };
  };
  const auto with = [](const std::vector<std::string>& buffers) {
    return [buffers](NamedTensors& tensors) {
      for (const auto& name : buffers) {
        tensors.emplace_back(name, torch::ones({3}));
      }
    };
  };
  expect_tensors_of("bloom", *open_old("bloom", without("transformer.")));
  expect_tensors_of("opt", *open_old("opt", without("model.")));  // "decoder.…", of OPTModel
  expect_tensors_of("opt_post_norm", *open_old("opt_post_norm", without("model.")));
  const auto falcon = [&](NamedTensors& tensors) {
    with({"transformer.h.0.self_attention.rotary_emb.inv_freq"})(tensors);
    tensors.emplace_back("lm_head.weight", tensors.back().second);
    for (const auto& [name, tensor] : tensors) {
      if (name == "transformer.word_embeddings.weight") {
        tensors.back().second = tensor.clone();
      }
    }
  };
  expect_tensors_of("falcon", *open_old("falcon", falcon));
  expect_tensors_of(
      "gptj",
      *open_old("gptj", with({"transformer.h.0.attn.bias", "transformer.h.1.attn.masked_bias"})));
  expect_tensors_of("gpt_neo",
                    *open_old("gpt_neo",
                              with({"transformer.h.0.attn.attention.bias",
                                    "transformer.h.1.attn.attention.masked_bias"})));
  expect_tensors_of("stablelm",
                    *open_old("stablelm", with({"model.layers.0.self_attn.rotary_emb.inv_freq"})));
  expect_tensors_of("phi",
                    *open_old("phi", with({"model.layers.0.self_attn.rotary_emb.inv_freq"})));
}

// A copy of the untied llama with its tensors changed.
class Broken {
 public:
  explicit Broken(const std::function<void(NamedTensors&)>& change) {
    const TensorCheckpoint whole(model_folder("llama_untied"));
    NamedTensors tensors;
    for (const auto& name : whole.names()) {
      tensors.emplace_back(name, whole.view(name));
    }
    change(tensors);
    write_safetensors(folder_.path() / "model.safetensors", tensors);
    fs::copy(model_folder("llama_untied") / "config.json", folder_.path());
  }
  std::string message() const {
    return message_of<c10::Error>([&] { load_model(folder_.path()); });
  }

 private:
  testing::TemporaryFolder folder_;
};

at::Tensor& tensor_named(NamedTensors& tensors, const std::string& name) {
  for (auto& [key, tensor] : tensors) {
    if (key == name) {
      return tensor;
    }
  }
  TORCH_CHECK(false, name);
}

TEST(Refusals, NameTheTensorWhatWasExpectedAndWhatWasFound) {
  const std::string query = "model.layers.0.self_attn.q_proj.weight";
  const Broken missing([&](NamedTensors& tensors) {
    std::erase_if(tensors, [&](const auto& item) { return item.first == query; });
  });
  EXPECT_TRUE(contains(missing.message(), "tensors are missing: " + query));
  const Broken extra([](NamedTensors& tensors) {
    tensors.emplace_back("model.layers.7.mlp.up_proj.weight", torch::zeros({2}));
  });
  EXPECT_TRUE(contains(extra.message(), "does not have: model.layers.7.mlp.up_proj.weight"));
  const Broken misshapen([&](NamedTensors& tensors) {
    tensor_named(tensors, query) = torch::zeros({3, 16});
  });
  EXPECT_TRUE(contains(misshapen.message(), query + ": expected the shape [16, 16]"));
  EXPECT_TRUE(contains(misshapen.message(), "found [3, 16]"));
  const Broken bias(
      [&](NamedTensors& tensors) { tensors.emplace_back("lm_head.bias", torch::zeros({24})); });
  EXPECT_TRUE(contains(bias.message(), "does not have: lm_head.bias"));
  const Broken mistyped([&](NamedTensors& tensors) {
    tensor_named(tensors, query) = torch::zeros({16, 16}, at::kLong);
  });
  EXPECT_TRUE(contains(mistyped.message(), query + ": expected float32, bfloat16 or float16"));
}

TEST(Refusals, ComeBeforeMemoryIsTakenByWhatAConfigSays) {
  const testing::TemporaryFolder folder;
  fs::copy(model_folder("llama_untied") / "model.safetensors", folder.path());
  auto config = read_json(model_folder("llama_untied") / "config.json");
  config["num_hidden_layers"] = 16000;
  write_json(folder.path() / "config.json", config);
  EXPECT_TRUE(
      contains(message_of<c10::Error>([&] { load_model(folder.path()); }),
               "config.json says 16000 layers, but there is no tensor model.layers.15999."));
  config = read_json(model_folder("llama_untied") / "config.json");
  config["vocab_size"] = 100000000;
  write_json(folder.path() / "config.json", config);
  EXPECT_TRUE(contains(message_of<c10::Error>([&] { load_model(folder.path()); }),
                       "model.embed_tokens.weight: expected the shape [100000000, 16]"));
}

TEST(Refusals, OfHalfAHead) {
  // A score head has no bias, token classes have one: it is not made up beside a stored weight.
  const auto message = message_of<c10::Error>(
      [] { load_model(model_folder("llama_score"), {.head = HeadKind::TokenClasses}); });
  EXPECT_TRUE(contains(message, "tensors are missing: score.bias"));
  EXPECT_TRUE(contains(message_of<c10::Error>([] {
                         load_model(model_folder("llama_token_classes"), {.head = HeadKind::Score});
                       }),
                       "does not have: score.bias"));
}

TEST(Refusals, SayWhatAModelFolderIs) {
  const testing::TemporaryFolder folder;
  EXPECT_TRUE(contains(message_of<c10::Error>([&] { load_model(folder.path() / "none"); }),
                       "no such folder"));
  EXPECT_TRUE(contains(message_of<c10::Error>([&] { load_model(folder.path()); }), "config.json"));
}

}  // namespace
}  // namespace reprise
