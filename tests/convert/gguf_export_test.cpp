// Models of every family as GGUF: the names, shapes and bytes that llama.cpp's converter writes,
// and the way back. tests/fixtures/generate_gguf_export.py says how the fixtures were made.
#include "support/fixtures.h"
#include "support/temporary_folder.h"
#include "support/tensors.h"

#include <reprise/convert/gguf.h>
#include <reprise/io/file.h>
#include <reprise/io/json.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>
#include <reprise/model/model.h>
#include <reprise/text/tokenizer.h>
#include "io/gguf/gguf_file.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::testing {
namespace {

namespace fs = std::filesystem;

uint32_t crc32(std::string_view bytes) {
  uint32_t sum = ~uint32_t{0};
  for (const char byte : bytes) {
    sum ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      sum = (sum >> 1) ^ ((sum & 1) != 0 ? 0xEDB88320U : 0U);
    }
  }
  return ~sum;
}

/// weight() of the script.
at::Tensor weight(const std::string& name, at::IntArrayRef shape) {
  at::Tensor values = at::empty(shape, at::kFloat);
  auto* const out = values.mutable_data_ptr<float>();
  const uint64_t start = crc32(name);
  for (uint64_t i = 0; i < static_cast<uint64_t>(values.numel()); ++i) {
    const uint64_t mixed = (i * 2654435761U + start) & 0xFFFFFFFFU;
    out[i] = static_cast<float>(mixed >> 16) / 65536.0F - 0.5F;
  }
  return values;
}

void write_model(const fs::path& folder, const Json& config) {
  create_folder(folder);
  write_json(folder / "config.json", config);
  const Model model(ModelConfig::from_json(config, "fixture"),
                    HeadKind::CausalLm,
                    at::TensorOptions(at::kFloat).device(at::kMeta));
  NamedTensors tensors;
  for (const auto& item : model.named_parameters()) {
    tensors.emplace_back(item.key(), weight(item.key(), item.value().sizes()));
  }
  write_checkpoint(folder, tensors);
}

std::string type_name(io::GgufType type) {
  switch (type) {
    case io::GgufType::F32:
      return "F32";
    case io::GgufType::F16:
      return "F16";
    case io::GgufType::BF16:
      return "BF16";
    case io::GgufType::Q80:
      return "Q8_0";
    default:
      return "another";
  }
}

class ExportedModel : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    fixture_ = read_json(fixtures() / "gguf" / (std::string(GetParam()) + ".json"));
    write_model(folder_ / "model", fixture_["config"]);
  }

  ConvertReport run(const std::string& type) {
    fs::remove(folder_ / "x.gguf");
    return export_gguf(folder_ / "model", folder_ / "x.gguf", {.type = type});
  }

  TemporaryFolder folder_;
  Json fixture_;
};

TEST_P(ExportedModel, HasTheTensorsOfLlamaCpp) {
  for (const auto& [type, expected] : fixture_["tensors"].items()) {
    run(type);
    const io::GgufFile file(folder_ / "x.gguf");
    const std::string bytes = read_file(folder_ / "x.gguf");
    EXPECT_EQ(file.tensors().size(), expected.size()) << type;
    for (const auto& [name, facts] : expected.items()) {
      const io::GgufTensor* const found = file.find(name);
      ASSERT_NE(found, nullptr) << name;
      EXPECT_EQ(type_name(found->type), facts[0]) << name;
      EXPECT_EQ(found->shape, facts[1].get<std::vector<int64_t>>()) << name;
      EXPECT_EQ(crc32(std::string_view(bytes).substr(found->begin, found->end - found->begin)),
                facts[2].get<uint32_t>())
          << type << " " << name;
      EXPECT_EQ(found->begin % 32, 0u) << name;
    }
  }
}

TEST_P(ExportedModel, IsImportedAsTheSameModel) {
  run("f32");
  import_gguf(folder_ / "x.gguf", folder_ / "back");
  const TensorCheckpoint before(folder_ / "model"), after(folder_ / "back");
  EXPECT_EQ(after.names(), before.names());
  for (const std::string& name : before.names()) {
    EXPECT_TRUE(after.view(name).equal(before.view(name))) << name;
  }
  const auto was = ModelConfig::read(folder_ / "model"), is = ModelConfig::read(folder_ / "back");
  const std::string type = was.source["model_type"];
  EXPECT_EQ(is.source["model_type"], type == "mistral" ? "llama" : type);
  EXPECT_EQ(is.rope.theta, was.rope.theta);
  EXPECT_EQ(is.rope.dims, was.rope.dims);
  EXPECT_EQ(is.rope.scaling, was.rope.scaling);
  EXPECT_EQ(is.norm_epsilon, was.norm_epsilon);
  EXPECT_EQ(is.activation, was.activation);
  EXPECT_EQ(is.parallel_residual, was.parallel_residual);
  EXPECT_EQ(is.max_positions, was.max_positions);
  EXPECT_EQ(is.windows, was.windows);
  EXPECT_EQ(is.ropes, was.ropes);
  EXPECT_EQ(is.attention_scales, was.attention_scales);
  EXPECT_EQ(is.attention_softcap, was.attention_softcap);
  EXPECT_EQ(is.embedding_scale, was.embedding_scale);
  EXPECT_EQ(is.residual_scale, was.residual_scale);
  EXPECT_EQ(is.logit_shape.scale, was.logit_shape.scale);
  EXPECT_EQ(is.logit_shape.softcap, was.logit_shape.softcap);
  EXPECT_EQ(is.tied_head, was.tied_head);
  EXPECT_TRUE(is.warnings.empty()) << is.warnings.front();
}

INSTANTIATE_TEST_SUITE_P(Families,
                         ExportedModel,
                         ::testing::Values("llama",
                                           "llama3_rope",
                                           "mistral",
                                           "qwen2",
                                           "qwen3",
                                           "gpt2",
                                           "gpt_neox",
                                           "gemma",
                                           "gemma2",
                                           "gemma3",
                                           "phi3",
                                           "smollm3",
                                           "olmo2",
                                           "granite",
                                           "glm4",
                                           "cohere2",
                                           "starcoder2",
                                           "stablelm",
                                           "phi"),
                         [](const auto& info) { return std::string(info.param); });

/// A llama of the fixture with some fields changed, and a tokenizer if it is named.
class ExportedLlama : public ::testing::Test {
 protected:
  void write(const Json& changes = Json::object(), const std::string& tokenizer = "") {
    Json config = read_json(fixtures() / "gguf/llama.json")["config"];
    config.update(changes);
    write_model(model_, config);
    if (!tokenizer.empty()) {
      fs::copy(fixtures() / "tokenizers" / tokenizer, model_);
    }
  }

  io::GgufFile exported(const std::string& type = "") {
    warnings_ = export_gguf(model_, file_, {.type = type}).warnings;
    return io::GgufFile(file_);
  }

  TemporaryFolder folder_;
  fs::path model_ = folder_ / "model", file_ = folder_ / "x.gguf";
  std::vector<std::string> warnings_;
};

TEST_F(ExportedLlama, HasTheTypeOfTheFolderUnlessAnotherIsGiven) {
  write();
  EXPECT_EQ(exported().find("token_embd.weight")->type, io::GgufType::F32);
  EXPECT_EQ(exported("bf16").metadata().at("general.file_type"), 32);
}

TEST_F(ExportedLlama, HasTheKeysThatLlamaCppReads) {
  write();
  const auto file = exported();
  const io::GgufMetadata& keys = file.metadata();
  EXPECT_EQ(keys.at("general.architecture"), "llama");
  EXPECT_EQ(keys.at("general.name"), "model");
  EXPECT_EQ(keys.at("llama.block_count"), 2);
  EXPECT_EQ(keys.at("llama.attention.head_count_kv"), 2);
  EXPECT_EQ(keys.at("llama.attention.value_length"), 16);
  EXPECT_EQ(keys.at("llama.rope.dimension_count"), 16);
  EXPECT_EQ(keys.at("llama.rope.freq_base"), 10000.0);
  EXPECT_EQ(keys.at("tokenizer.ggml.model"), "none");
  EXPECT_NE(warnings_.front().find("has no tokenizer"), std::string::npos);
}

TEST_F(ExportedLlama, SaysItsScaledRope) {
  for (const Json& rope :
       {Json{{"rope_type", "linear"}, {"factor", 4.0}},
        Json{{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32}}}) {
    fs::remove_all(model_);
    fs::remove(file_);
    write({{"rope_parameters", rope}});
    exported();
    import_gguf(file_, folder_ / rope["rope_type"].get<std::string>());
    const auto was = ModelConfig::read(model_);
    const auto is = ModelConfig::read(folder_ / rope["rope_type"].get<std::string>());
    EXPECT_EQ(is.rope.scaling, was.rope.scaling);
    EXPECT_EQ(is.rope.factor, was.rope.factor);
    EXPECT_EQ(is.rope.original_positions, was.rope.original_positions);
    EXPECT_EQ(is.rope.attention_factor, was.rope.attention_factor);
  }
}

TEST_F(ExportedLlama, WarnsOfAWindowThatLlamaCppDoesNotHave) {
  write({{"model_type", "mistral"}, {"sliding_window", 16}});
  exported();
  EXPECT_NE(warnings_.front().find("differs beyond 16 tokens"), std::string::npos);
}

TEST_F(ExportedLlama, IsRefusedByName) {
  const std::vector<std::pair<Json, const char*>> cases = {
      {{{"rope_parameters", {{"rope_type", "dynamic"}, {"factor", 2.0}}}}, "rope_type dynamic"},
      {{{"architectures", {"LlamaForSequenceClassification"}}},
       "expected a language model, found LlamaForSequenceClassification"}};
  for (const auto& [changes, message] : cases) {
    fs::remove_all(model_);
    write(changes);
    expect_error([&] { exported(); }, message);
    EXPECT_FALSE(fs::exists(file_));
  }
  const auto chatglm = fixtures() / "models/chatglm2";
  expect_error([&] { export_gguf(chatglm, file_); }, "; found chatglm");
  write_file(model_ / "adapter_config.json", "{}");
  expect_error([&] { exported(); }, "is an adapter: merge it into its base first");
}

TEST_F(ExportedLlama, RepeatsATiedHeadWhereLlamaCppWantsOne) {
  Json config = read_json(fixtures() / "gguf/gpt_neox.json")["config"];
  config["tie_word_embeddings"] = true;
  write_model(model_, config);
  const auto file = exported();
  EXPECT_TRUE(
      file.load(*file.find("output.weight")).equal(file.load(*file.find("token_embd.weight"))));
}

/// The ids of every text of the fixture.
std::vector<TokenIds> all_ids(const Tokenizer& tokenizer) {
  std::vector<TokenIds> ids;
  const std::string lines = read_file(fixtures() / "tokenizers/texts.jsonl");
  for (size_t begin = 0; begin < lines.size();) {
    const size_t end = lines.find('\n', begin);
    const Json line = Json::parse(lines.substr(begin, end - begin));
    const std::string text =
        line.is_string() ? line.get<std::string>() : line["text"].get<std::string>();
    ids.push_back(tokenizer.encode(text).ids);
    begin = end + 1;
  }
  return ids;
}

class ExportedTokenizer : public ExportedLlama,
                          public ::testing::WithParamInterface<const char*> {};

TEST_P(ExportedTokenizer, IsImportedAsTheSameTokenizer) {
  const auto original = Tokenizer::open(fixtures() / "tokenizers" / GetParam());
  write({{"vocab_size", original->size() + 3}}, GetParam());
  exported();
  import_gguf(file_, folder_ / "back");
  const auto imported = Tokenizer::open(folder_ / "back");
  const auto expected = all_ids(*original), found = all_ids(*imported);
  ASSERT_FALSE(expected.empty());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(found[i], expected[i]) << "text " << i;
    EXPECT_EQ(imported->decode(found[i], true), original->decode(expected[i], true))
        << "text " << i;
  }
  EXPECT_EQ(imported->special_tokens().eos, original->special_tokens().eos);
  EXPECT_EQ(imported->chat_template() == nullptr, original->chat_template() == nullptr);
}

INSTANTIATE_TEST_SUITE_P(Kinds,
                         ExportedTokenizer,
                         ::testing::Values("gpt2",
                                           "llama3",
                                           "qwen2",
                                           "smollm",
                                           "spm_llama",
                                           "pythia",
                                           "gemma",
                                           "tekken",
                                           "cohere2",
                                           "falcon",
                                           "bloom",
                                           "opt",
                                           "codegen"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(ExportedLlama, IsRefusedWithATokenizerThatLlamaCppWouldReadDifferently) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"bert", "model.type: expected \"BPE\", found \"WordPiece\""},
      {"llama2", "are not merged, although their concatenation is a token"},
      {"t5", "model.type: expected \"BPE\", found \"Unigram\""},
      {"clip", "model.end_of_word_suffix: llama.cpp has no such thing"},
      {"spm_unigram", "expected a model of type bpe"}};
  for (const auto& [tokenizer, message] : cases) {
    fs::remove_all(model_);
    write({{"vocab_size", 2000}}, tokenizer);
    expect_error([&] { exported(); }, message);
  }
}

}  // namespace
}  // namespace reprise::testing
