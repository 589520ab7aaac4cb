// GGUF files as Hugging Face folders.
#include "io/gguf_bytes.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"
#include "support/tensors.h"

#include <reprise/io/file.h>
#include "io/gguf/gguf_file.h"

#include <reprise/convert/gguf.h>
#include <reprise/io/tensor_file.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reprise::testing {
namespace {

const std::vector<std::string> kFolder = {"config.json",
                                          "generation_config.json",
                                          "model.safetensors",
                                          "tokenizer.json",
                                          "tokenizer_config.json"};

class ImportedModel : public ::testing::Test {
 protected:
  void import(const std::string& name, const ImportOptions& options = {}) {
    report_ = import_gguf(fixtures() / "io" / (name + ".gguf"), folder_ / "model", options);
    config_ = read_json(folder_ / "model/config.json");
    tokenizer_ = read_json(folder_ / "model/tokenizer.json");
    tokenizer_config_ = read_json(folder_ / "model/tokenizer_config.json");
  }

  TemporaryFolder folder_;
  ConvertReport report_;
  Json config_, tokenizer_, tokenizer_config_;
};

TEST_F(ImportedModel, HasTheWeightsOfTheModelThatWasConverted) {
  import("bytelevel");
  const TensorCheckpoint model(folder_ / "model");
  const TensorFile expected(fixtures() / "io/bytelevel.safetensors");
  ASSERT_EQ(expected.tensors().size(), 9u);
  for (const TensorInfo& info : expected.tensors()) {
    EXPECT_TRUE(model.view(info.name).equal(expected.view(info))) << info.name;
  }
  const io::GgufFile file(fixtures() / "io/bytelevel.gguf");
  EXPECT_TRUE(model.view("lm_head.weight").equal(file.load(*file.find("output.weight"))));
  EXPECT_EQ(report_.tensors, 21);
  EXPECT_EQ(report_.parameters, 35552);
  EXPECT_EQ(report_.bytes, 4u * 35552u);
  EXPECT_EQ(model.names().size(), 21u);
}

TEST_F(ImportedModel, HasTheDtypeThatWasAskedFor) {
  import("bytelevel", {.dtype = at::kBFloat16});
  const TensorCheckpoint model(folder_ / "model");
  const TensorFile expected(fixtures() / "io/bytelevel.safetensors");
  const std::string name = "model.layers.1.self_attn.q_proj.weight";
  EXPECT_TRUE(model.view(name).equal(expected.view(*expected.find(name)).to(at::kBFloat16)));
  EXPECT_EQ(config_["torch_dtype"], "bfloat16");
  expect_error([&] { import("bytelevel", {.dtype = at::kDouble}); }, "found Double");
}

TEST_F(ImportedModel, HasAConfigThatSaysTheSame) {
  import("bytelevel");
  const Json expected = Json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "bos_token_id": 260, "eos_token_id": 261, "pad_token_id": null, "head_dim": 8,
    "hidden_act": "silu", "hidden_size": 32, "initializer_range": 0.02, "intermediate_size": 64,
    "max_position_embeddings": 2048, "mlp_bias": false, "model_type": "llama",
    "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
    "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_scaling": {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                     "original_max_position_embeddings": 8192, "rope_type": "llama3"},
    "rope_theta": 500000.0, "tie_word_embeddings": false, "torch_dtype": "float32",
    "use_cache": true, "vocab_size": 265})");
  EXPECT_EQ(nlohmann::json(config_), nlohmann::json(expected));
  EXPECT_EQ(read_json(folder_ / "model/generation_config.json")["eos_token_id"], (Json{261, 262}));
  EXPECT_TRUE(report_.warnings.empty());
}

TEST_F(ImportedModel, HasAByteLevelTokenizer) {
  import("bytelevel");
  const Json& model = tokenizer_["model"];
  EXPECT_EQ(model["type"], "BPE");
  EXPECT_EQ(model["ignore_merges"], true);
  EXPECT_EQ(model["vocab"].size(), 264u) << "the unused token is left out";
  EXPECT_EQ(model["vocab"]["Ġthe"], 258);
  EXPECT_EQ(model["merges"], Json::parse(R"([["Ġ","t"],["h","e"],["Ġt","he"],["i","n"]])"));
  ASSERT_EQ(tokenizer_["added_tokens"].size(), 4u);
  EXPECT_EQ(tokenizer_["added_tokens"][0]["special"], true);
  EXPECT_EQ(tokenizer_["added_tokens"][3]["content"], "<think>");
  EXPECT_EQ(tokenizer_["added_tokens"][3]["special"], false);
  EXPECT_EQ(tokenizer_["pre_tokenizer"]["pretokenizers"][0]["type"], "Split");
  EXPECT_EQ(tokenizer_["post_processor"]["special_tokens"]["<|begin_of_text|>"]["ids"], Json{260});
  EXPECT_EQ(tokenizer_config_["bos_token"], "<|begin_of_text|>");
  EXPECT_EQ(tokenizer_config_["chat_template"], "{{ messages[0]['content'] }}");
}

TEST_F(ImportedModel, HasASentencepieceTokenizer) {
  import("sentencepiece");
  const Json& model = tokenizer_["model"];
  EXPECT_EQ(model["byte_fallback"], true);
  EXPECT_EQ(model["unk_token"], "<unk>");
  // By score of the result, highest first; then by those of the parts.
  EXPECT_EQ(model["merges"],
            Json::parse(R"([["t","h"],["▁","t"],["h","e"],["▁t","he"],["▁th","e"],["▁t","h"],
                            ["▁","th"]])"));
  EXPECT_EQ(tokenizer_["normalizer"]["normalizers"][0]["type"], "Prepend");
  EXPECT_EQ(tokenizer_["post_processor"]["single"][0]["SpecialToken"]["id"], "<s>");
}

TEST_F(ImportedModel, HasATiedHeadWhereTheFileHasNoOther) {
  import("sentencepiece");
  EXPECT_EQ(config_["tie_word_embeddings"], true);
  EXPECT_TRUE(config_["rope_scaling"].is_null());
  EXPECT_EQ(TensorCheckpoint(folder_ / "model").find("lm_head.weight"), nullptr);
}

TEST_F(ImportedModel, IsWholeAndAlone) {
  import("bytelevel");
  import("sentencepiece");
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "model")) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, kFolder);
}

/// Replaces the only occurrence of `from` in a fixture by `to`, of the same length.
std::string edited(const std::string& name, const std::string& from, const std::string& to) {
  std::string bytes = read_file(fixtures() / "io" / name);
  const size_t place = bytes.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  EXPECT_EQ(bytes.find(from, place + 1), std::string::npos) << from;
  return bytes.replace(place, to.size(), to);
}

std::string integer(const std::string& key, uint32_t value) {
  return key + packed(uint32_t{4}) + packed(value);
}

struct Edit {
  std::string from;
  std::string to;
  const char* message;
};

TEST(ImportGguf, RefusesByNameAndWritesNothing) {
  const std::vector<Edit> edits = {
      {packed_string("llama") + packed_string("llama.block_count"),
       packed_string("mamba"),
       "general.architecture: expected one of llama, qwen2, qwen3, gpt2, gptneox"},
      {integer("llama.block_count", 2),
       integer("llama.block_count", 3),
       "expected a tensor \"blk.2."},
      {integer("llama.block_count", 2),
       integer("llama.block_count", 1),
       "not part of a llama model of 1 layers"},
      {integer("llama.block_count", 2),
       integer("llama.block_count", 0),
       "llama.block_count: expected an integer from 1, found 0"},
      {integer("llama.block_count", 2),
       integer("llama.block_count", UINT32_MAX),
       "llama.block_count: expected an integer from 0 to 2^31 - 1"},
      {integer("llama.embedding_length", 32),
       integer("llama.embedding_length", 64),
       "llama.rope.dimension_count: expected the 16 dimensions of a head, found 8"},
      {integer("llama.feed_forward_length", 64),
       integer("llama.feed_forward_length", 96),
       "expected shape [96, 32], found [64, 32]"},
      {integer("llama.attention.head_count_kv", 2),
       integer("llama.attention.head_count_kv", 3),
       "llama.attention.head_count_kv: expected a divisor of the 4 heads, found 3"},
      {integer("llama.attention.head_count_kv", 2),
       integer("llama.attention.head_count_kv", 4),
       "expected shape [32, 32], found [16, 32]"},
      {"llama.context_length", "llama.Context_length", "llama.context_length: expected a value"},
      {"blk.1.ffn_up.weight", "blk.1.ffn_UP.weight", "expected a tensor \"blk.1.ffn_up.weight\""},
      {"token_embd.weight", "token_EMBD.weight", "expected a tensor \"token_embd.weight\""},
      {packed(1.F) + packed(1.F),
       packed(1.F) + packed(1.5F),
       "tensor \"rope_freqs.weight\": expected llama3's scaling"},
      {packed_string("gpt2"),
       packed_string("bert"),
       "tokenizer.ggml.model: expected \"gpt2\" or \"llama\", found \"bert\""},
      {"llama-bpe", "llama-xyz", "\"stablelm2\" or \"chatglm-bpe\", found \"llama-xyz\""},
      {packed_string("h e"),
       packed_string("h_e"),
       "tokenizer.ggml.merges: expected two tokens with a space between them, found \"h_e\""},
      {packed_string("h e"), packed_string("e h"), "expected two tokens that give a third"},
      {packed_string("in"),
       packed_string("he"),
       "expected tokens that are all different, found \"he\" twice"},
      {"<|begin_of_text|>", "<|begin_of_tex\xff|>", "cannot write"},
      {integer("tokenizer.ggml.bos_token_id", 260),
       integer("tokenizer.ggml.bos_token_id", 265),
       "tokenizer.ggml.bos_token_id: expected an id below 265, found 265"},
      {"tokenizer.ggml.tokens", "tokenizer.ggml.TOKENS", "tokenizer.ggml.tokens: expected a value"},
  };
  for (const Edit& edit : edits) {
    SCOPED_TRACE(edit.message);
    const TemporaryFolder folder;
    write_file(folder / "x.gguf", edited("bytelevel.gguf", edit.from, edit.to));
    const auto run = [&] { import_gguf(folder / "x.gguf", folder / "model"); };
    expect_error(run, edit.message);
    EXPECT_FALSE(std::filesystem::exists(folder / "model/config.json"));
  }
}

TEST(ImportGguf, WarnsOfKeysThatHaveNoPlace) {
  const TemporaryFolder folder;
  write_file(
      folder / "x.gguf",
      edited("sentencepiece.gguf", "llama.rope.dimension_count", "llama.rope.dimension_Count"));
  const auto report = import_gguf(folder / "x.gguf", folder / "model");
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_EQ(report.warnings[0],
            "llama.rope.dimension_Count has no place in config.json and is dropped");
}

TEST(ImportGguf, NamesAMissingFile) {
  const TemporaryFolder folder;
  expect_error([&] { import_gguf(folder / "none.gguf", folder / "model"); }, "cannot open");
}

}  // namespace
}  // namespace reprise::testing
